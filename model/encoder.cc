// SPDX-License-Identifier: Apache-2.0
#include "model/encoder.h"

#include "backend/device/profile.h"

namespace ventris {

Encoder::Encoder(const TransformerIds& ids, ConstTensor positions)
    : embedding_(Stack::kEncoder, ids.source_embedding, ids.source_positions, positions),
      norm_first_(ids.encoder_norm.gamma) {
  for (const EncoderLayerIds& layer : ids.encoder) {
    const auto index = static_cast<int>(layers_.size());
    layers_.push_back({SelfAttentionLayer(Stack::kEncoder, index, layer.self_attention),
                       FeedForwardLayer(Stack::kEncoder, index, layer.feed_forward),
                       layer.self_attention.query_key_value.weight});
  }
  if (ids.encoder_norm.gamma >= 0) norm_.emplace(ids.encoder_norm);
}

Encoder::Saved Encoder::plan(Arena& arena, const TransformerConfig& config, DType dtype, int64_t capacity,
                             KeptActivations kept) {
  Saved saved;
  saved.embedded = arena.allocate(capacity, config.d_model, dtype);
  for (int i = 0; i < config.encoder_layers; ++i) {
    if (kept != KeptActivations::kAll && i >= 1) {
      saved.layers.push_back(saved.layers[0]);
      if (kept == KeptActivations::kNone) continue;
      FeedForwardLayer::Saved& last = saved.layers.back().feed_forward;
      last = FeedForwardLayer::plan_output(arena, config, dtype, capacity, last);
      continue;
    }
    saved.layers.push_back({SelfAttentionLayer::plan(arena, config, dtype, capacity),
                            FeedForwardLayer::plan(arena, config, dtype, capacity)});
  }
  if (config.pre_norm) saved.norm = ResidualNorm::plan(arena, config, dtype, capacity);
  return saved;
}

ConstTensor Encoder::forward(Pass& pass, Saved& saved) const {
  list_attention_work(pass.context, {.query_offsets = pass.batch.source_offsets,
                                     .key_offsets = pass.batch.source_offsets,
                                     .sentences = pass.batch.sentences,
                                     .work = pass.attention_work.encoder});
  const Tensor embedded = saved.embedded.row_range(0, pass.batch.source_rows);
  embedding_.forward(pass, embedded);
  ResidualStream stream{.residual = embedded, .input = embedded};
  for (size_t i = 0; i < layers_.size(); ++i) forward_layer(pass, i, stream, saved.layers[i]);
  if (norm_) norm_->forward(pass, stream, saved.norm);
  return stream.input;
}

void Encoder::forward_layer(Pass& pass, size_t index, ResidualStream& stream, LayerSaved& saved) const {
  const ProfileLayer layer(pass.context, "encoder layer", index);
  layers_[index].self_attention.forward(pass, stream, saved.self_attention);
  layers_[index].feed_forward.forward(pass, stream, saved.feed_forward);
}

void Encoder::backward(Pass& pass, GradientStream& gradients, Saved& saved,
                       const GradientsReady& ready) const {
  if (norm_) {
    norm_->backward(pass, gradients, saved.norm, /*first=*/true);
    if (ready) ready(pass.store.gradient_begin(norm_first_));
    if (!pass.store.trains_before(norm_first_)) return;
  }
  bool recomputes = false;  // the activations are still those of the last layer
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& here = layers_[i];
    if (recomputes) {
      ResidualStream stream = here.self_attention.stream_before(pass, saved.layers[i].self_attention);
      forward_layer(pass, i, stream, saved.layers[i]);
    }
    recomputes = pass.kept == KeptActivations::kLayerInputs;
    {
      const ProfileLayer layer(pass.context, "encoder layer", i);
      here.feed_forward.backward(pass, gradients, saved.layers[i].feed_forward);
      here.self_attention.backward(pass, gradients, saved.layers[i].self_attention);
    }
    if (ready) ready(pass.store.gradient_begin(here.first));
    if (!pass.store.trains_before(here.first)) return;
  }
  embedding_.backward(pass, gradients.residual);
}

}  // namespace ventris
