// SPDX-License-Identifier: Apache-2.0
#include "model/output_layer.h"

#include <algorithm>

#include "backend/ops/bias_relu.h"
#include "backend/ops/cast.h"
#include "backend/ops/cross_entropy.h"
#include "backend/ops/gemm.h"
#include "backend/ops/packed_gemm.h"
#include "backend/ops/top_k.h"

namespace ventris {
namespace {

// Each chunk packs the table twice, which costs less the longer it is. Its length changes no bit of products
// that sum in one chain.
constexpr int64_t kCpuChunkBytes = int64_t{40} << 20;
constexpr int64_t kMinCpuChunkRows = 512;
constexpr int64_t kMaxCpuChunkRows = 1024;
/// Maximum bytes of logits on CUDA, where small products leave most of the chip idle.
constexpr int64_t kCudaChunkBytes = int64_t{2} << 30;

}  // namespace

DType OutputLayer::logits_dtype(Device device, DType dtype) {
  return device == Device::kCpu && sums_in_one_chain(dtype) ? master_dtype(dtype) : dtype;
}

/// On CUDA as few chunks of equal size as the bytes allow.
int64_t OutputLayer::chunk_rows(const TransformerConfig& config, Device device, DType dtype,
                                int64_t capacity) {
  const int64_t row_bytes = config.padded_vocab() * static_cast<int64_t>(size_of(dtype));
  if (device == Device::kCpu) {
    const int64_t rows = sums_in_one_chain(dtype) ? kCpuChunkBytes / row_bytes : 0;
    return std::min(capacity, std::clamp(rows, kMinCpuChunkRows, kMaxCpuChunkRows));
  }
  const int64_t chunks = std::max<int64_t>(1, (capacity * row_bytes + kCudaChunkBytes - 1) / kCudaChunkBytes);
  constexpr int64_t kTileRows = 128;
  const int64_t rows = ((capacity + chunks - 1) / chunks + kTileRows - 1) / kTileRows * kTileRows;
  return std::min(rows, capacity);
}

OutputLayer::Memory OutputLayer::plan(Arena& arena, const TransformerConfig& config, Device device,
                                      DType dtype, int64_t capacity) {
  Memory memory;
  const int64_t rows = chunk_rows(config, device, dtype, capacity);
  memory.logits = arena.allocate(rows, config.padded_vocab(), dtype);
  memory.loss = arena.allocate(1, capacity, master_dtype(dtype));
  memory.nll = arena.allocate(1, capacity, master_dtype(dtype));
  memory.totals = arena.allocate_array<double>(2);
  return memory;
}

void OutputLayer::loss(Pass& pass, ConstTensor hidden, Tensor d_hidden, const Memory& memory) const {
  const int64_t all_rows = hidden.rows;
  const float* const weights = pass.batch.weights;
  for (int64_t begin = 0; begin < all_rows; begin += memory.logits.rows) {
    const int64_t rows = std::min(memory.logits.rows, all_rows - begin);
    const ConstTensor h = hidden.row_range(begin, rows);
    const Tensor z = memory.logits.row_range(0, rows);
    logits(pass, h, z);
    cross_entropy(pass.context, {.logits = z,
                                 .labels = pass.batch.labels + begin,
                                 .weights = weights == nullptr ? nullptr : weights + begin,
                                 .first_row = begin,
                                 .tokens = pass.batch.target_offsets + pass.batch.sentences,
                                 .vocab = pass.config.vocab_size,
                                 .smoothing = pass.config.label_smoothing,
                                 .gradient = static_cast<bool>(d_hidden),
                                 .gradient_scale = pass.batch.gradient_scale,
                                 .loss = memory.loss.col_range(begin, rows),
                                 .nll = memory.nll.col_range(begin, rows)});
    if (!d_hidden) continue;
    backward(pass, z, h, d_hidden.row_range(begin, rows));
  }
  loss_sum(pass.context, {.loss = memory.loss.col_range(0, all_rows),
                          .nll = memory.nll.col_range(0, all_rows),
                          .totals = memory.totals});
}

/// Columns of logits that are multiplied: those of the vocabulary where products need no whole tiles. The
/// rest of the logits is then not written, and the rest of the gradient of E stays zero.
int64_t OutputLayer::columns(const Pass& pass, DType dtype) {
  const bool exact = pass.context.device() == Device::kCpu && sums_in_one_chain(dtype);
  return exact ? pass.config.vocab_size : pass.config.padded_vocab();
}

/// With logits Z = h E^T + b: d_h = dZ E;  dE += dZ^T h;  db += column sums of dZ.
void OutputLayer::backward(Pass& pass, ConstTensor d_logits, ConstTensor hidden, Tensor d_hidden) const {
  const int64_t used = columns(pass, d_logits.dtype);
  const ConstTensor d_used = d_logits.col_range(0, used);
  gemm(pass.context, {.a = d_used, .b = pass.store.value(table_).row_range(0, used), .c = d_hidden});
  if (const Tensor d_table = pass.store.gradient(table_)) {
    gemm(
        pass.context,
        {.a = d_used, .b = hidden, .c = d_table.row_range(0, used), .transpose_a = true, .accumulate = true});
  }
  const Tensor d_bias = bias_ >= 0 ? pass.store.gradient(bias_) : Tensor{};
  if (d_bias) bias_backward(pass.context, {.d_y = d_logits, .d_bias = d_bias});
}

void OutputLayer::log_probabilities(Pass& pass, ConstTensor hidden, float* out, const Memory& memory) const {
  for (int64_t begin = 0; begin < hidden.rows; begin += memory.logits.rows) {
    const int64_t rows = std::min(memory.logits.rows, hidden.rows - begin);
    const Tensor z = memory.logits.row_range(0, rows);
    logits(pass, hidden.row_range(begin, rows), z);
    log_probability(pass.context, {.logits = z,
                                   .labels = pass.batch.labels + begin,
                                   .vocab = pass.config.vocab_size,
                                   .log_probabilities = out + begin});
  }
}

void OutputLayer::logits(Pass& pass, ConstTensor hidden, Tensor logits) const {
  ConstTensor bias;
  if (bias_ >= 0) bias = logits.dtype == hidden.dtype ? pass.store.bias(bias_) : pass.store.value(bias_);
  if (const PackedMatrix table = pass.store.packed(table_)) {
    return packed_gemm(pass.context, {.a = hidden, .b = table, .c = logits, .bias = bias});
  }
  const int64_t used = columns(pass, hidden.dtype);
  gemm(pass.context, {.a = hidden,
                      .b = pass.store.value(table_).row_range(0, used),
                      .c = logits.col_range(0, used),
                      .transpose_b = true,
                      .bias = bias ? bias.col_range(0, used) : bias});
}

}  // namespace ventris
