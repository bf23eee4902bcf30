// SPDX-License-Identifier: Apache-2.0
#include "model/decoder.h"

#include "backend/device/profile.h"

namespace ventris {

Decoder::Decoder(const TransformerIds& ids, ConstTensor positions)
    : embedding_(Stack::kDecoder, ids.target_embedding, ids.target_positions, positions),
      key_value_(ids.memory_key_value),
      own_table_(ids.target_embedding == ids.source_embedding ? -1 : ids.target_embedding),
      first_(ids.first_of_decoder()),
      norm_first_(ids.decoder_norm.gamma) {
  for (const DecoderLayerIds& layer : ids.decoder) {
    const auto index = static_cast<int>(layers_.size());
    layers_.push_back({SelfAttentionLayer(Stack::kDecoder, index, layer.self_attention),
                       CrossAttentionLayer(index, layer.cross_attention),
                       FeedForwardLayer(Stack::kDecoder, index, layer.feed_forward),
                       layer.self_attention.query_key_value.weight});
  }
  if (ids.decoder_norm.gamma >= 0) norm_.emplace(ids.decoder_norm);
}

Decoder::Saved Decoder::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                             const MicroBatchCapacity& capacity, KeptActivations kept) {
  const int64_t rows = capacity.target_rows;
  const int64_t wide = int64_t{2} * config.d_model * config.decoder_layers;
  Saved saved;
  saved.embedded = arena.allocate(rows, config.d_model, dtype);
  saved.key_value = arena.allocate(capacity.source_rows, wide, dtype);
  if (kept != KeptActivations::kNone) saved.d_key_value = arena.allocate(capacity.source_rows, wide, dtype);
  for (int i = 0; i < config.decoder_layers; ++i) {
    if (kept != KeptActivations::kAll && i >= 1) {
      saved.layers.push_back(saved.layers[0]);
      if (kept == KeptActivations::kNone) continue;
      FeedForwardLayer::Saved& last = saved.layers.back().feed_forward;
      last = FeedForwardLayer::plan_output(arena, config, dtype, rows, last);
      continue;
    }
    saved.layers.push_back({SelfAttentionLayer::plan(arena, config, dtype, rows),
                            CrossAttentionLayer::plan(arena, config, dtype, rows),
                            FeedForwardLayer::plan(arena, config, dtype, rows)});
  }
  if (config.pre_norm) saved.norm = ResidualNorm::plan(arena, config, dtype, rows);
  return saved;
}

ConstTensor Decoder::forward(Pass& pass, ConstTensor memory, Saved& saved) const {
  const MicroBatch& batch = pass.batch;
  list_attention_work(pass.context, {.query_offsets = batch.target_offsets,
                                     .key_offsets = batch.target_offsets,
                                     .sentences = batch.sentences,
                                     .work = pass.attention_work.decoder});
  list_attention_work(pass.context, {.query_offsets = batch.target_offsets,
                                     .key_offsets = batch.source_offsets,
                                     .sentences = batch.sentences,
                                     .work = pass.attention_work.cross});
  const Tensor key_value = saved.key_value.row_range(0, memory.rows);
  saved.memory = memory;
  key_value_.forward(pass, memory, key_value);
  const Tensor embedded = saved.embedded.row_range(0, batch.target_rows);
  embedding_.forward(pass, embedded);
  ResidualStream stream{.residual = embedded, .input = embedded};
  for (size_t i = 0; i < layers_.size(); ++i) forward_layer(pass, i, stream, saved);
  if (norm_) norm_->forward(pass, stream, saved.norm);
  return stream.input;
}

void Decoder::forward_layer(Pass& pass, size_t index, ResidualStream& stream, Saved& saved) const {
  const ProfileLayer layer(pass.context, "decoder layer", index);
  const int64_t pair = int64_t{2} * pass.config.d_model;
  const ConstTensor key_value =
      saved.key_value.row_range(0, saved.memory.rows).col_range(static_cast<int64_t>(index) * pair, pair);
  LayerSaved& of_layer = saved.layers[index];
  layers_[index].self_attention.forward(pass, stream, of_layer.self_attention);
  layers_[index].cross_attention.forward(pass, stream, key_value, of_layer.cross_attention);
  layers_[index].feed_forward.forward(pass, stream, of_layer.feed_forward);
}

/// With [K V] = memory W + b for all layers at once, after the layers have filled d[K V]:
///   dW += memory^T d[K V];  db_v += column sums;  d_memory = d[K V] W^T
void Decoder::backward(Pass& pass, GradientStream& gradients, Tensor d_memory, Saved& saved,
                       const GradientsReady& ready) const {
  const int64_t pair = int64_t{2} * pass.config.d_model;
  const Tensor d_key_value = saved.d_key_value.row_range(0, saved.memory.rows);
  if (norm_) {
    norm_->backward(pass, gradients, saved.norm, /*first=*/true);
    if (ready) ready(pass.store.gradient_begin(norm_first_));
    if (!pass.store.trains_before(norm_first_)) return;
  }
  bool recomputes = false;  // the activations are still those of the last layer
  for (size_t i = layers_.size(); i-- > 0;) {
    const Layer& here = layers_[i];
    const Tensor layer_d_key_value = d_key_value.col_range(static_cast<int64_t>(i) * pair, pair);
    if (recomputes) {
      ResidualStream stream = here.self_attention.stream_before(pass, saved.layers[i].self_attention);
      forward_layer(pass, i, stream, saved);
    }
    recomputes = pass.kept == KeptActivations::kLayerInputs;
    {
      const ProfileLayer layer(pass.context, "decoder layer", i);
      here.feed_forward.backward(pass, gradients, saved.layers[i].feed_forward);
      here.cross_attention.backward(pass, gradients, layer_d_key_value, saved.layers[i].cross_attention);
      here.self_attention.backward(pass, gradients, saved.layers[i].self_attention);
    }
    if (ready) ready(pass.store.gradient_begin(here.first));
    if (!pass.store.trains_before(here.first)) return;
  }
  embedding_.backward(pass, gradients.residual);
  if (own_table_ >= 0) clear_zero_token(pass.context, pass.config, pass.store.gradient(own_table_));
  key_value_.backward_parameters(pass, saved.memory, d_key_value,
                                 {.first = pair / 2, .count = pair / 2, .period = pair});
  const bool encoder_trains = pass.store.trains_before(first_);
  if (encoder_trains) key_value_.backward_input(pass, d_key_value, d_memory, /*accumulate=*/false);
  if (ready) ready(pass.store.gradient_begin(first_));
}

}  // namespace ventris
