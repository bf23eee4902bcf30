// SPDX-License-Identifier: Apache-2.0
#include "model/batch_stage.h"

#include <algorithm>

#include "backend/device/error.h"
#include "backend/ops/row_order.h"

namespace ventris {
namespace {

constexpr size_t kBatchAlignment = 128;
// The number of sentences is padded to a multiple of this and never decreases, so that it soon stays
// constant. The capacity, which allows for sentences of one token, would be many times larger than needed.
constexpr int kSentenceStep = 64;

}  // namespace

StagedOrders training_orders(Device device, const TransformerConfig& config) {
  if (device == Device::kCpu) return StagedOrders::kNone;
  return config.learned_positions ? StagedOrders::kIdsAndPositions : StagedOrders::kIds;
}

BatchStage::Layout BatchStage::layout_of(const MicroBatchCapacity& capacity, StagedOrders orders,
                                         StagedWeights weights) {
  Layout layout{};
  const auto place = [&](size_t& offset, size_t bytes) {
    offset = layout.bytes;
    layout.bytes += (bytes + kBatchAlignment - 1) / kBatchAlignment * kBatchAlignment;
  };
  const auto place_numbers = [&](size_t& offset, int64_t count) {
    place(offset, static_cast<size_t>(count) * sizeof(int32_t));
  };
  place(layout.source_dropout, sizeof(DropoutPosition));
  place(layout.target_dropout, sizeof(DropoutPosition));
  place(layout.gradient_scale, sizeof(float));
  place_numbers(layout.source_ids, capacity.source_rows);
  place_numbers(layout.source_position, capacity.source_rows);
  place_numbers(layout.target_ids, capacity.target_rows);
  place_numbers(layout.target_position, capacity.target_rows);
  place_numbers(layout.labels, capacity.target_rows);
  place_numbers(layout.source_offsets, int64_t{capacity.sentences} + 1);
  place_numbers(layout.target_offsets, int64_t{capacity.sentences} + 1);
  if (orders != StagedOrders::kNone) {
    place_numbers(layout.source_id_order, capacity.source_rows);
    place_numbers(layout.target_id_order, capacity.target_rows);
  }
  if (orders == StagedOrders::kIdsAndPositions) {
    place_numbers(layout.source_position_order, capacity.source_rows);
    place_numbers(layout.target_position_order, capacity.target_rows);
  }
  if (weights == StagedWeights::kRows) {
    place(layout.weights, static_cast<size_t>(capacity.target_rows) * sizeof(float));
  }
  return layout;
}

BatchStage::BatchStage(Context& context, const MicroBatchCapacity& capacity, StagedRows rows,
                       StagedOrders orders, StagedWeights weights)
    : capacity_(capacity),
      rows_(rows),
      orders_(orders),
      weights_(weights),
      layout_(layout_of(capacity, orders, weights)),
      buffer_(context, layout_.bytes),
      batch_{.source_ids = device<int32_t>(layout_.source_ids),
             .source_position = device<int32_t>(layout_.source_position),
             .source_offsets = device<int32_t>(layout_.source_offsets),
             .target_ids = device<int32_t>(layout_.target_ids),
             .target_position = device<int32_t>(layout_.target_position),
             .target_offsets = device<int32_t>(layout_.target_offsets),
             .labels = device<int32_t>(layout_.labels),
             .source_dropout = device<DropoutPosition>(layout_.source_dropout),
             .target_dropout = device<DropoutPosition>(layout_.target_dropout),
             .gradient_scale = device<float>(layout_.gradient_scale)} {
  if (orders_ != StagedOrders::kNone) {
    batch_.source_id_order = device<int32_t>(layout_.source_id_order);
    batch_.target_id_order = device<int32_t>(layout_.target_id_order);
  }
  if (orders_ == StagedOrders::kIdsAndPositions) {
    batch_.source_position_order = device<int32_t>(layout_.source_position_order);
    batch_.target_position_order = device<int32_t>(layout_.target_position_order);
  }
  if (weights_ == StagedWeights::kRows) batch_.weights = device<float>(layout_.weights);
}

/// Padding is token 0 at position 0, which every table has.
void BatchStage::put_rows(size_t offset, std::span<const int32_t> values, int64_t rows) {
  int32_t* to = host<int32_t>(offset);
  std::fill(std::copy(values.begin(), values.end(), to), to + rows, 0);
}

/// Each target row has the weight of its sentence. What padding has makes no difference.
void BatchStage::put_weights(const HostBatch& batch) {
  float* const to = host<float>(layout_.weights);
  std::fill(to, to + batch_.target_rows, 1.0F);
  for (size_t i = 0; i < batch.weights.size(); ++i) {
    std::fill(to + batch.target_offsets[i], to + batch.target_offsets[i + 1], batch.weights[i]);
  }
}

/// Sentences after the last one are empty.
void BatchStage::put_offsets(size_t offset, std::span<const int32_t> values) {
  int32_t* to = host<int32_t>(offset);
  const int32_t end = values.empty() ? 0 : values.back();
  std::fill(std::copy(values.begin(), values.end(), to), to + batch_.sentences + 1, end);
}

/// `index`: the offset of the numbers that the rows are sorted by.
void BatchStage::put_order(size_t offset, size_t index, int64_t rows) {
  const auto count = static_cast<size_t>(rows);
  order_rows({host<int32_t>(index), count}, {host<int32_t>(offset), count}, order_room_);
}

void BatchStage::fill(const HostBatch& batch) {
  const auto sentences = static_cast<int>(batch.source_offsets.size()) - 1;
  const auto source_rows = static_cast<int64_t>(batch.source_ids.size());
  const auto target_rows = static_cast<int64_t>(batch.target_ids.size());
  VENTRIS_CHECK(
      sentences >= 0 && sentences <= capacity_.sentences && source_rows <= capacity_.source_rows &&
          target_rows <= capacity_.target_rows,
      "a micro-batch of {} sentences, {} source rows and {} target rows; there is room for {}, {} and {}",
      sentences, source_rows, target_rows, capacity_.sentences, capacity_.source_rows, capacity_.target_rows);
  VENTRIS_CHECK(
      batch.weights.empty() || (weights_ == StagedWeights::kRows && std::ssize(batch.weights) == sentences),
      "{} weights for {} sentences, or none were to come", batch.weights.size(), sentences);
  if (rows_ == StagedRows::kExact) {
    batch_.sentences = sentences;
    batch_.source_rows = source_rows;
    batch_.target_rows = target_rows;
  } else {
    const int max = std::max(sentences, batch.max_sentences);
    const int rounded = (max + kSentenceStep - 1) / kSentenceStep * kSentenceStep;
    batch_.sentences = std::min(capacity_.sentences, std::max(batch_.sentences, rounded));
    const auto padded = [](int64_t room, int64_t capacity) {
      return room == 0 ? capacity : std::min(capacity, (room + kTileRows - 1) / kTileRows * kTileRows);
    };
    batch_.source_rows = padded(batch.source_room, capacity_.source_rows);
    batch_.target_rows = padded(batch.target_room, capacity_.target_rows);
  }
  *host<DropoutPosition>(layout_.source_dropout) = batch.source_dropout;
  *host<DropoutPosition>(layout_.target_dropout) = batch.target_dropout;
  *host<float>(layout_.gradient_scale) = batch.gradient_scale;
  put_rows(layout_.source_ids, batch.source_ids, batch_.source_rows);
  put_rows(layout_.source_position, batch.source_position, batch_.source_rows);
  put_rows(layout_.target_ids, batch.target_ids, batch_.target_rows);
  put_rows(layout_.target_position, batch.target_position, batch_.target_rows);
  put_rows(layout_.labels, batch.labels, batch_.target_rows);
  put_offsets(layout_.source_offsets, batch.source_offsets);
  put_offsets(layout_.target_offsets, batch.target_offsets);
  if (orders_ != StagedOrders::kNone) {
    put_order(layout_.source_id_order, layout_.source_ids, batch_.source_rows);
    put_order(layout_.target_id_order, layout_.target_ids, batch_.target_rows);
  }
  if (orders_ == StagedOrders::kIdsAndPositions) {
    put_order(layout_.source_position_order, layout_.source_position, batch_.source_rows);
    put_order(layout_.target_position_order, layout_.target_position, batch_.target_rows);
  }
  if (weights_ == StagedWeights::kRows) put_weights(batch);
}

void BatchStage::send() {
  buffer_.send(layout_.bytes);
}

}  // namespace ventris
