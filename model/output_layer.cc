#include "model/output_layer.h"

#include <algorithm>

#include "backend/cast.h"
#include "backend/cross_entropy.h"
#include "backend/gemm.h"

namespace ventris {

OutputLayer::Memory OutputLayer::plan(Arena& arena, const TransformerConfig& config, DType dtype,
                                      int64_t capacity) {
  Memory memory;
  memory.logits = arena.allocate(std::min(kChunkRows, capacity), config.padded_vocab(), dtype);
  memory.loss = arena.allocate(1, capacity, master_dtype(dtype));
  memory.nll = arena.allocate(1, capacity, master_dtype(dtype));
  memory.totals = arena.allocate_array<double>(2);
  memory.gradient_scale = arena.allocate_array<float>(1);
  return memory;
}

/// With logits Z = h E^T and dZ from the cross-entropy: d_h = dZ E;  dE += dZ^T h.
LossSums OutputLayer::loss(Pass& pass, ConstTensor hidden, Tensor d_hidden, const Memory& memory) const {
  const int64_t tokens = pass.batch.target_tokens;
  const ConstTensor table = pass.store.value(embedding_);
  for (int64_t begin = 0; begin < tokens; begin += kChunkRows) {
    const int64_t rows = std::min(kChunkRows, tokens - begin);
    const ConstTensor h = hidden.row_range(begin, rows);
    const Tensor z = memory.logits.row_range(0, rows);
    gemm(pass.context, {.a = h, .b = table, .c = z, .transpose_b = true});
    cross_entropy(pass.context, {.logits = z,
                                 .labels = pass.batch.labels + begin,
                                 .tokens = rows,
                                 .vocab = pass.config.vocab_size,
                                 .smoothing = pass.config.label_smoothing,
                                 .gradient = static_cast<bool>(d_hidden),
                                 .gradient_scale = memory.gradient_scale,
                                 .loss = memory.loss.col_range(begin, rows),
                                 .nll = memory.nll.col_range(begin, rows)});
    if (!d_hidden) continue;
    gemm(pass.context, {.a = z, .b = table, .c = d_hidden.row_range(begin, rows)});
    gemm(pass.context,
         {.a = z, .b = h, .c = pass.store.gradient(embedding_), .transpose_a = true, .accumulate = true});
  }
  if (d_hidden && d_hidden.rows > tokens) {
    fill_zero(pass.context, d_hidden.row_range(tokens, d_hidden.rows - tokens));
  }
  std::fill_n(memory.totals, 2, 0.0);
  loss_sum(pass.context, {.loss = memory.loss.col_range(0, tokens),
                          .nll = memory.nll.col_range(0, tokens),
                          .totals = memory.totals});
  return {memory.totals[0], memory.totals[1]};
}

void OutputLayer::logits(Pass& pass, ConstTensor hidden, Tensor logits) const {
  gemm(pass.context, {.a = hidden, .b = pass.store.value(embedding_), .c = logits, .transpose_b = true});
}

}  // namespace ventris
