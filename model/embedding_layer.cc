// SPDX-License-Identifier: Apache-2.0
#include "model/embedding_layer.h"

#include <cmath>
#include <vector>

#include "backend/device/transfer.h"
#include "backend/ops/embedding.h"

namespace ventris {
namespace {

float embedding_scale(const TransformerConfig& config) {
  return std::sqrt(static_cast<float>(config.d_model));
}

}  // namespace

ConstTensor positions_of(const ParameterStore& store, const char* name, Tensor sinusoids) {
  const LogicalParameter* learned = store.find(name);
  return learned != nullptr ? store.logical_value(*learned) : sinusoids;
}

void fill_sinusoids(Context& context, const TransformerConfig& config, Tensor sinusoids) {
  std::vector<char> bytes(static_cast<size_t>(sinusoids.size()) * size_of(sinusoids.dtype));
  Tensor host = sinusoids;
  host.data = bytes.data();
  sinusoidal_positions(host, config.marian_positions ? Sinusoids::kMarian : Sinusoids::kPaper);
  copy_to_device(context, sinusoids.data, host.data, bytes.size());
}

void EmbeddingLayer::forward(Pass& pass, Tensor out) const {
  const PackedRows packed = pass.packed(stack_);
  const PackedMatrix packed_table = pass.store.packed(table_);
  embedding_forward(pass.context, {.ids = packed.ids,
                                   .position = packed.position,
                                   .table = packed_table ? ConstTensor{} : pass.store.value(table_),
                                   .packed_table = packed_table,
                                   .positions = positions_,
                                   .scale = embedding_scale(pass.config),
                                   .zero_start = zero_start(pass),
                                   .dropout = pass.dropout_key(stack_, 0, DropoutSite::kEmbedding),
                                   .out = out});
}

/// d_table[id] += sqrt(d_model) * mask * d_out;  d_positions[position] += mask * d_out. Rows of
/// padding have no gradient.
void EmbeddingLayer::backward(Pass& pass, ConstTensor d_out) const {
  const Tensor d_table = pass.store.gradient(table_);
  const Tensor d_positions = learned_ >= 0 ? pass.store.gradient(learned_) : Tensor{};
  if (!d_table && !d_positions) return;
  const PackedRows packed = pass.packed(stack_);
  embedding_backward(pass.context, {.ids = packed.ids,
                                    .id_order = packed.id_order,
                                    .position = packed.position,
                                    .position_order = packed.position_order,
                                    .d_out = d_out,
                                    .scale = embedding_scale(pass.config),
                                    .zero_start = zero_start(pass),
                                    .dropout = pass.dropout_key(stack_, 0, DropoutSite::kEmbedding),
                                    .d_table = d_table,
                                    .d_positions = d_positions});
}

}  // namespace ventris
