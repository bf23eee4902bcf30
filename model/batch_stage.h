// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/device/transfer.h"
#include "model/micro_batch.h"
#include "model/transformer_config.h"

namespace ventris {

/// A packed micro-batch in host memory; model/micro_batch.h has the meaning of each array. Rows after the
/// last token, if any, are padding.
struct HostBatch {
  std::span<const int32_t> source_ids = {};       // [source rows]
  std::span<const int32_t> source_position = {};  // [source rows]
  std::span<const int32_t> source_offsets = {};   // [sentences + 1]
  // Empty for the encoder alone:
  std::span<const int32_t> target_ids = {};       // [target rows]
  std::span<const int32_t> target_position = {};  // [target rows]
  std::span<const int32_t> labels = {};           // [target rows]
  std::span<const int32_t> target_offsets = {};   // [sentences + 1]
  std::span<const float> weights = {};            // [sentences] factors of their losses; empty: all 1
  DropoutPosition source_dropout = {};
  DropoutPosition target_dropout = {};
  float gradient_scale = 1.0F;
  // Rows of a side that the padding of StagedRows::kCapacity fills, to the next kTileRows; 0: the capacity.
  int64_t source_room = 0;
  int64_t target_room = 0;
  int max_sentences = 0;  // maximum over all ranks' micro-batches of the step; 0: the number in this one
};

/// Rows of the tiles of matrix products on GPUs.
inline constexpr int64_t kTileRows = 128;

/// The number of rows of a staged micro-batch: those of the host's batch, or with padding the capacity, or
/// what the batch has room for. On CUDA the shape is constant but for the levels of a warm-up, so that memory
/// is planned and a step captured once; on the CPU padding would be wasted work. The sentences grow with
/// HostBatch::max_sentences, on all ranks alike: NCCL requires that a sum is captured on all ranks or on
/// none, and new shapes are captured again.
enum class StagedRows { kExact, kCapacity };
inline StagedRows staged_rows_of(Device device) {
  return device == Device::kCpu ? StagedRows::kExact : StagedRows::kCapacity;
}

/// Which orders of its rows a staged micro-batch has, made by the thread that fills the stage: none on CPUs
/// and without backward; by tokens; for learned positions, whose gradient is summed too, also by positions.
enum class StagedOrders { kNone, kIds, kIdsAndPositions };
/// Those that training needs.
StagedOrders training_orders(Device device, const TransformerConfig& config);

/// Whether a staged micro-batch has weights of its target rows, those of their sentences. Without, nothing is
/// sent or multiplied.
enum class StagedWeights { kNone, kRows };

/// Transfers one micro-batch to the device: all its arrays in one block, so that one copy is enough, and at
/// constant device addresses. With two alternating stages the host fills one while the device uses the other.
class BatchStage {
 public:
  BatchStage(Context& context, const MicroBatchCapacity& capacity, StagedRows rows,
             StagedOrders orders = StagedOrders::kNone, StagedWeights weights = StagedWeights::kNone);
  BatchStage(Context& context, const MicroBatchCapacity& capacity, StagedOrders orders = StagedOrders::kNone,
             StagedWeights weights = StagedWeights::kNone)
      : BatchStage(context, capacity, staged_rows_of(context.device()), orders, weights) {}

  /// Host memory of a stage in bytes; on a device other than the CPU it takes the same amount of device
  /// memory.
  static size_t planned_bytes(const MicroBatchCapacity& capacity, StagedOrders orders,
                              StagedWeights weights) {
    return layout_of(capacity, orders, weights).bytes;
  }

  /// Writes the batch into host memory of the stage; uses no device, so that any thread may call it. Requires
  /// that wait_until_sent() followed the last send(). Throws Error(kInternal) for a batch beyond the
  /// capacity, or with weights that the stage would leave out.
  void fill(const HostBatch& batch);
  /// Enqueues the copy of the last batch to the device, before all work enqueued later.
  void send();
  /// Returns when fill() may be called again.
  void wait_until_sent() { buffer_.wait_until_sent(); }
  /// The last batch, in device memory.
  const MicroBatch& batch() const { return batch_; }

 private:
  /// The numbers of a block: one for each sentence and one more, and `rows` for each row of a side.
  struct Layout {
    size_t source_dropout, target_dropout, gradient_scale;
    size_t source_ids, source_position, target_ids, target_position, labels;
    size_t source_offsets, target_offsets;
    // Where there are such orders:
    size_t source_id_order, target_id_order, source_position_order, target_position_order;
    size_t weights;  // where there are any
    size_t bytes;
  };
  static Layout layout_of(const MicroBatchCapacity& capacity, StagedOrders orders, StagedWeights weights);
  template <typename T>
  const T* device(size_t offset) {
    return reinterpret_cast<const T*>(buffer_.device() + offset);
  }
  template <typename T>
  T* host(size_t offset) {
    return reinterpret_cast<T*>(buffer_.host() + offset);
  }
  void put_rows(size_t offset, std::span<const int32_t> values, int64_t rows);
  void put_weights(const HostBatch& batch);
  void put_offsets(size_t offset, std::span<const int32_t> values);
  void put_order(size_t offset, size_t index, int64_t rows);

  const MicroBatchCapacity capacity_;
  const StagedRows rows_;
  const StagedOrders orders_;
  const StagedWeights weights_;
  const Layout layout_;
  StagingBuffer buffer_;
  MicroBatch batch_;
  std::vector<int32_t> order_room_;
};

}  // namespace ventris
