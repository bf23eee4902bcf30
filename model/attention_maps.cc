// SPDX-License-Identifier: Apache-2.0
#include "model/attention_maps.h"

#include <algorithm>

#include "backend/device/transfer.h"

namespace ventris {
namespace {

constexpr int64_t kBatchRows = 1024;  // of a side, or the longest sentence that the model accepts

int64_t longest_source(std::span<const TokenPair> pairs) {
  size_t max = 0;
  for (const TokenPair& pair : pairs) max = std::max(max, pair.source.size());
  return static_cast<int64_t>(max) + 1;
}

int layers_of(const TransformerConfig& config, AttentionKind kind) {
  return kind == AttentionKind::kEncoderSelf ? config.encoder_layers : config.decoder_layers;
}

float element(ConstTensor row, int64_t column) {
  return row.dtype == DType::kF64 ? static_cast<float>(row.as<double>()[column]) : row.as<float>()[column];
}

/// Memory for `count` tensors of weights.
size_t bytes_of(int64_t count, int64_t rows, int64_t columns, DType dtype) {
  constexpr size_t kAlignment = 128;
  return static_cast<size_t>(count) * (static_cast<size_t>(rows * columns) * size_of(dtype) + kAlignment);
}

}  // namespace

AttentionMapper::AttentionMapper(Context& context, const TransformerConfig& config, ParameterStore& store,
                                 const TransformerIds& ids, const Marks& marks)
    : context_(context),
      config_(config),
      master_(master_dtype(store.dtype())),
      marks_(marks),
      rows_(std::max<int64_t>(kBatchRows, config.max_positions)),
      model_(context, config, store, ids,
             {.source_rows = rows_, .target_rows = rows_, .sentences = static_cast<int>(rows_)},
             KeptActivations::kNone),
      stage_(context, {.source_rows = rows_, .target_rows = rows_, .sentences = static_cast<int>(rows_)},
             StagedRows::kExact) {}

void AttentionMapper::run(std::span<const TokenPair> pairs, const AttentionWeights& weights) {
  PackedPairs packed(marks_);
  for (const TokenPair& pair : pairs) packed.add(pair.source, pair.target);
  stage_.wait_until_sent();
  stage_.fill(packed.view());
  stage_.send();
  model_.attention_weights(stage_.batch(), weights);
}

AttentionMapper::AllMaps AttentionMapper::all_maps(const TokenPair& pair) {
  const auto source_rows = static_cast<int64_t>(pair.source.size()) + 1;
  const auto target_rows = static_cast<int64_t>(pair.target.size()) + 1;
  const auto queries_of = [&](AttentionKind kind) {
    return kind == AttentionKind::kEncoderSelf ? source_rows : target_rows;
  };
  const auto keys_of = [&](AttentionKind kind) {
    return kind == AttentionKind::kDecoderSelf ? target_rows : source_rows;
  };
  size_t bytes = 0;
  for (const AttentionKind kind : kAttentionKinds) {
    bytes += bytes_of(layers_of(config_, kind), queries_of(kind), config_.heads * keys_of(kind), master_);
  }
  Arena memory(context_.device(), bytes, "attention weights");
  AttentionWeights weights;
  for (const AttentionKind kind : kAttentionKinds) {
    for (int layer = 0; layer < layers_of(config_, kind); ++layer) {
      weights.set(kind, layer, memory.allocate(queries_of(kind), config_.heads * keys_of(kind), master_));
    }
  }
  run({&pair, 1}, weights);
  AllMaps maps;
  for (const AttentionKind kind : kAttentionKinds) {
    const int64_t keys = keys_of(kind);
    for (int layer = 0; layer < layers_of(config_, kind); ++layer) {
      const HostCopy host(context_, weights.of(kind, layer));
      for (int64_t head = 0; head < config_.heads; ++head) {
        AttentionMap map = {.queries = queries_of(kind), .keys = keys};
        for (int64_t t = 0; t < map.queries; ++t) {
          const ConstTensor row = host.view().row_range(t, 1);
          for (int64_t j = 0; j < keys; ++j) map.weights.push_back(element(row, head * keys + j));
        }
        maps[static_cast<size_t>(kind)].push_back(std::move(map));
      }
    }
  }
  return maps;
}

size_t AttentionMapper::fitting(std::span<const TokenPair> pairs) const {
  size_t count = 0;
  int64_t source = 0;
  int64_t target = 0;
  for (; count < pairs.size(); ++count) {
    source += static_cast<int64_t>(pairs[count].source.size()) + 1;
    target += static_cast<int64_t>(pairs[count].target.size()) + 1;
    if (std::max(source, target) > rows_) break;
  }
  VENTRIS_CHECK(count > 0, "a pair of {} and {} tokens; the model has {} positions", pairs[0].source.size(),
                pairs[0].target.size(), config_.max_positions);
  return count;
}

std::vector<AttentionMap> AttentionMapper::cross_attention(std::span<const TokenPair> pairs, int layer) {
  std::vector<AttentionMap> maps;
  while (!pairs.empty()) {
    const size_t count = fitting(pairs);
    for (AttentionMap& map : cross_attention_of_batch(pairs.first(count), layer)) {
      maps.push_back(std::move(map));
    }
    pairs = pairs.subspan(count);
  }
  return maps;
}

std::vector<AttentionMap> AttentionMapper::cross_attention_of_batch(std::span<const TokenPair> pairs,
                                                                    int layer) {
  VENTRIS_CHECK(layer >= 0 && layer < config_.decoder_layers, "layer {} of a decoder of {}", layer,
                config_.decoder_layers);
  const int64_t max_keys = longest_source(pairs);
  int64_t rows = 0;
  for (const TokenPair& pair : pairs) rows += static_cast<int64_t>(pair.target.size()) + 1;
  Arena memory(context_.device(), bytes_of(1, rows, config_.heads * max_keys, master_), "attention weights");
  AttentionWeights weights;
  weights.set(AttentionKind::kCross, layer, memory.allocate(rows, config_.heads * max_keys, master_));
  run(pairs, weights);
  const HostCopy host(context_, weights.of(AttentionKind::kCross, layer));
  std::vector<AttentionMap> maps;
  int64_t first = 0;
  for (const TokenPair& pair : pairs) {
    AttentionMap map = {.queries = static_cast<int64_t>(pair.target.size()) + 1,
                        .keys = static_cast<int64_t>(pair.source.size()) + 1};
    for (int64_t t = 0; t < map.queries; ++t) {
      const ConstTensor row = host.view().row_range(first + t, 1);
      for (int64_t j = 0; j < map.keys; ++j) {
        float sum = 0.0F;
        for (int64_t head = 0; head < config_.heads; ++head) sum += element(row, head * max_keys + j);
        map.weights.push_back(sum / static_cast<float>(config_.heads));
      }
    }
    first += map.queries;
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace ventris
