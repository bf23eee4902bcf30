#pragma once

#include <cstdint>
#include <span>

#include "backend/transfer.h"
#include "model/micro_batch.h"

namespace ventris {

/// A packed micro-batch in host memory; model/micro_batch.h has the meaning of each array. Rows past the last
/// token, where there are any, are padding.
struct HostBatch {
  std::span<const int32_t> source_ids = {};       // [source rows]
  std::span<const int32_t> source_position = {};  // [source rows]
  std::span<const int32_t> source_offsets = {};   // [sentences + 1]
  // Empty for the encoder alone:
  std::span<const int32_t> target_ids = {};       // [target rows]
  std::span<const int32_t> target_position = {};  // [target rows]
  std::span<const int32_t> labels = {};           // [target rows]
  std::span<const int32_t> target_offsets = {};   // [sentences + 1]
  DropoutPosition source_dropout = {};
  DropoutPosition target_dropout = {};
  float gradient_scale = 1.0F;
  int max_sentences = 0;  // of all ranks' micro-batches of the step; 0: those of this one
};

/// How many rows a staged micro-batch has: those of the host's batch, or always those of the capacity, with
/// padding. On CUDA the shape is constant, so that memory is planned and a step captured once; on the CPU
/// padding would be work for nothing. The sentences grow with HostBatch::max_sentences, on all ranks alike:
/// NCCL demands that a sum is captured on all ranks or on none, and new shapes are captured anew.
enum class StagedRows { kExact, kCapacity };
inline StagedRows staged_rows_of(Device device) {
  return device == Device::kCpu ? StagedRows::kExact : StagedRows::kCapacity;
}

/// One micro-batch on its way to the device: all its arrays in one block, so that one copy brings them there,
/// and at the same device addresses every time. Two stages in turn let the host fill one while the device
/// works on the other.
class BatchStage {
 public:
  BatchStage(Context& context, const MicroBatchCapacity& capacity, StagedRows rows);
  BatchStage(Context& context, const MicroBatchCapacity& capacity)
      : BatchStage(context, capacity, staged_rows_of(context.device())) {}

  /// Host memory that a stage takes, and as much again of the device where that is not the CPU.
  static size_t planned_bytes(const MicroBatchCapacity& capacity) { return layout_of(capacity).bytes; }

  /// Writes the batch into host memory of the stage; uses no device, so that any thread may call it. Requires
  /// that wait_until_sent() followed the last send(). Throws Error(kInternal) for a batch beyond the
  /// capacity.
  void fill(const HostBatch& batch);
  /// Enqueues the copy to the device; what was filled last is there for work enqueued after it.
  void send();
  /// Returns when fill() may be called again.
  void wait_until_sent() { buffer_.wait_until_sent(); }
  /// What was filled last, in device memory.
  const MicroBatch& batch() const { return batch_; }

 private:
  /// One number for each sentence and one more, and `rows` for each row of a side, in one block.
  struct Layout {
    size_t source_dropout, target_dropout, gradient_scale;
    size_t source_ids, source_position, target_ids, target_position, labels;
    size_t source_offsets, target_offsets;
    size_t bytes;
  };
  static Layout layout_of(const MicroBatchCapacity& capacity);
  template <typename T>
  const T* device(size_t offset) {
    return reinterpret_cast<const T*>(buffer_.device() + offset);
  }
  template <typename T>
  T* host(size_t offset) {
    return reinterpret_cast<T*>(buffer_.host() + offset);
  }
  void put_rows(size_t offset, std::span<const int32_t> values, int64_t rows);
  void put_offsets(size_t offset, std::span<const int32_t> values);

  const MicroBatchCapacity capacity_;
  const StagedRows rows_;
  const Layout layout_;
  StagingBuffer buffer_;
  MicroBatch batch_;
};

}  // namespace ventris
