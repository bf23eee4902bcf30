// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/device/context.h"
#include "model/attention_weights.h"
#include "model/batch_stage.h"
#include "model/packed_pairs.h"
#include "model/parameters.h"
#include "model/transformer.h"

namespace ventris {

/// A matrix of attention weights in host memory; every row sums to 1.
struct AttentionMap {
  int64_t queries = 0;
  int64_t keys = 0;
  std::vector<float> weights = {};  // [queries, keys]
  float at(int64_t query, int64_t key) const { return weights[static_cast<size_t>(query * keys + key)]; }
};

/// Tokens of a sentence pair, without marks.
struct TokenPair {
  std::span<const int32_t> source;
  std::span<const int32_t> target;
};

/// Computes the attention weights of sentence pairs without dropout, for a given target (forced decoding). A
/// source of n tokens has n + 1 keys, the end mark last. A target of m tokens has m + 1 queries: query t has
/// token t - 1 as its input (the begin mark at 0) and predicts token t (the end mark at m).
class AttentionMapper {
 public:
  /// The references must outlive the object.
  AttentionMapper(Context& context, const TransformerConfig& config, ParameterStore& store,
                  const TransformerIds& ids, const Marks& marks);

  /// Every layer and head: by kind, then [layer * heads + head]. Source and target have fewer tokens than
  /// max_positions.
  using AllMaps = std::array<std::vector<AttentionMap>, kAttentionKinds.size()>;
  AllMaps all_maps(const TokenPair& pair);

  /// The cross-attention of one decoder layer, mean over its heads, for each pair. The maps of a pair do not
  /// depend on the others.
  std::vector<AttentionMap> cross_attention(std::span<const TokenPair> pairs, int layer);

 private:
  /// Packs the pairs and runs the model.
  void run(std::span<const TokenPair> pairs, const AttentionWeights& weights);
  /// The number of pairs that fit in a micro-batch, at least one.
  size_t fitting(std::span<const TokenPair> pairs) const;
  std::vector<AttentionMap> cross_attention_of_batch(std::span<const TokenPair> pairs, int layer);

  Context& context_;
  const TransformerConfig config_;
  const DType master_;
  const Marks marks_;
  const int64_t rows_;  // of a side in a micro-batch
  Transformer model_;
  BatchStage stage_;
};

}  // namespace ventris
