// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "backend/device/context.h"
#include "backend/ops/attention.h"
#include "backend/ops/dropout.h"
#include "model/attention_weights.h"
#include "model/micro_batch.h"
#include "model/parameters.h"
#include "model/search_attention.h"
#include "model/transformer_config.h"

namespace ventris {

/// Callback during backward: the gradients of the store (ParameterStore::gradients) at or after `begin` are
/// complete for this micro-batch. Called with values that do not rise, at the end with 0.
using GradientsReady = std::function<void(int64_t begin)>;

/// Callback before that: the loss of this micro-batch is in Transformer::loss_sums(), which backward does not
/// access. Called once.
using LossReady = std::function<void()>;

/// The two stacks. The encoder processes the source rows of a micro-batch, the decoder its target rows.
enum class Stack : uint32_t { kEncoder = 0, kDecoder = 1 };

/// All places of dropout. DropoutKey::place of one of them is dropout_place(stack, layer, site); the
/// embedding counts as layer 0. The low 8 bits are reserved for attention heads. Changing a number changes
/// every mask, and so the bits of a run.
enum class DropoutSite : uint32_t {
  kEmbedding = 0,             // sum of embedding and position
  kSelfAttentionWeights = 1,  // attention weights
  kSelfAttentionOutput = 2,   // output of the sublayer, before the residual sum
  kCrossAttentionWeights = 3,
  kCrossAttentionOutput = 4,
  kFeedForwardOutput = 5,
  kFeedForwardHidden = 6,  // after the activation
};

constexpr uint32_t dropout_place(Stack stack, int layer, DropoutSite site) {
  return (static_cast<uint32_t>(stack) << 16 | static_cast<uint32_t>(layer) << 3 |
          static_cast<uint32_t>(site))
         << 8;
}

/// One side of a micro-batch.
struct PackedRows {
  int64_t rows;
  const int32_t* ids;              // [rows]
  const int32_t* position;         // [rows]
  const int32_t* offsets;          // [sentences + 1]
  const DropoutPosition* dropout;  // of the first row
  const int32_t* id_order;         // [rows] rows sorted by (id, row), or null
  const int32_t* position_order;   // [rows] rows sorted by (position, row), or null
};

/// 1 / sqrt(d_head), section 3.2.1 of the paper.
inline float attention_scale(const TransformerConfig& config) {
  return 1.0F / std::sqrt(static_cast<float>(config.d_head()));
}

/// The memory of `tensor` as a contiguous matrix with fewer columns.
inline Tensor first_columns(Tensor tensor, int64_t cols) {
  return {tensor.data, tensor.rows, cols, cols, tensor.dtype};
}

/// Work of attention (backend/ops/attention.h) between the sides of a micro-batch: self-attention of the
/// encoder and of the decoder, and the decoder's attention to the encoder output.
struct BatchAttentionWork {
  AttentionWork encoder = {};
  AttentionWork decoder = {};
  AttentionWork cross = {};

  static BatchAttentionWork plan(Arena& arena, Device device, DType dtype,
                                 const MicroBatchCapacity& capacity) {
    const auto between = [&](int64_t query_rows, int64_t key_rows) {
      return plan_attention_work(arena, device, dtype, capacity.sentences, query_rows, key_rows);
    };
    return {.encoder = between(capacity.source_rows, capacity.source_rows),
            .decoder = between(capacity.target_rows, capacity.target_rows),
            .cross = between(capacity.target_rows, capacity.source_rows)};
  }
};

/// The parameters of a forward and backward pass, for every layer.
struct Pass {
  Context& context;
  const TransformerConfig& config;
  ParameterStore& store;
  const MicroBatch& batch;
  BatchAttentionWork attention_work = {};     // listed by the stacks' forward passes
  KeptActivations kept;                       // by the model
  bool dropout = false;                       // on in training
  uint64_t seed = 0;                          // of dropout
  const AttentionWeights* weights = nullptr;  // filled during forward, if any
  const SearchAttention* search = nullptr;    // attention of the decoder as in a search, or empty

  PackedRows packed(Stack stack) const {
    if (stack == Stack::kEncoder) {
      return {batch.source_rows,    batch.source_ids,      batch.source_position,      batch.source_offsets,
              batch.source_dropout, batch.source_id_order, batch.source_position_order};
    }
    return {batch.target_rows,    batch.target_ids,      batch.target_position,      batch.target_offsets,
            batch.target_dropout, batch.target_id_order, batch.target_position_order};
  }

  const AttentionWork& self_attention_work(Stack stack) const {
    return stack == Stack::kEncoder ? attention_work.encoder : attention_work.decoder;
  }

  DropoutKey dropout_key(Stack stack, int layer, DropoutSite site) const {
    return {.rate = dropout ? rate_of(site) : 0.0F,
            .seed = seed,
            .place = dropout_place(stack, layer, site),
            .position = packed(stack).dropout};
  }

  float rate_of(DropoutSite site) const {
    switch (site) {
      case DropoutSite::kSelfAttentionWeights:
      case DropoutSite::kCrossAttentionWeights:
        return config.attention_dropout;
      case DropoutSite::kFeedForwardHidden:
        return config.activation_dropout;
      default:
        return config.dropout;
    }
  }

  Tensor attention_weights(AttentionKind kind, int layer) const {
    return weights != nullptr ? weights->of(kind, layer) : Tensor{};
  }
};

}  // namespace ventris
