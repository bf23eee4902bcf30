// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"
#include "backend/ops/dropout.h"

namespace ventris {

/// Work lists of attention between two packed sides, from which the bf16 kernels of CUDA draw their work.
/// Made once for a batch, they serve all attention between its two sides, forward and backward, one after the
/// other: operations with the same lists must not overlap, as on two streams. If empty, attention makes its
/// own lists.
struct AttentionWork {
  void* memory = nullptr;
  int sentences = 0;  // capacities
  int64_t query_rows = 0;
  int64_t key_rows = 0;

  explicit operator bool() const { return memory != nullptr; }
};
/// Allocates from `arena`; allocates nothing and returns an empty list if no kernel reads lists.
AttentionWork plan_attention_work(Arena& arena, Device device, DType dtype, int sentences, int64_t query_rows,
                                  int64_t key_rows);

struct AttentionWorkArgs {
  const int32_t* query_offsets;  // [sentences + 1]
  const int32_t* key_offsets;    // [sentences + 1]
  int sentences;
  AttentionWork work;  // overwritten; no operation if empty
};
/// Requires: the last offsets are at most the capacity of `work` in rows.
void list_attention_work(Context& context, const AttentionWorkArgs& args);

/// Scaled dot-product attention over packed sentences (section 3.2.1 of the paper): for each sentence and
/// head
///   P = softmax(scale * Q K^T), O = dropout(P) V
/// Sentence s has the rows [query_offsets[s], query_offsets[s + 1]) of Q and the rows
/// [key_offsets[s], key_offsets[s + 1]) of K and V; head h has the columns [h * d_head, (h + 1) * d_head).
/// With `causal` (self-attention: equal offsets) a query sees keys up to its own position. A query of a
/// sentence without keys gets zeros. Q, K, V may be column blocks of wider matrices.
struct AttentionForwardArgs {
  ConstTensor query;             // [query_rows, heads * d_head] T
  ConstTensor key;               // [key_rows, heads * d_head] T
  ConstTensor value;             // [key_rows, heads * d_head] T
  const int32_t* query_offsets;  // [sentences + 1]
  const int32_t* key_offsets;    // [sentences + 1]
  int sentences;
  int heads;
  bool causal = false;
  float scale;              // 1 / sqrt(d_head)
  DropoutKey dropout = {};  // place must leave its low 8 bits to the head
  AttentionWork work;  // listed for these offsets, or empty; without a default, so that it is never forgotten
  Tensor out;          // [query_rows, heads * d_head] T
  /// [heads, query_rows] master: log of the sum of exp(scale * q k), saved for backward, or empty.
  Tensor log_sum_exp = {};
  /// [query_rows, heads * max_keys] master: P before dropout, for alignments and pictures, or empty. Row t
  /// holds `heads` blocks of max_keys, zero after the sentence's keys.
  Tensor probabilities = {};
};
void attention_forward(Context& context, const AttentionForwardArgs& args);

/// With D = rowsum(dO * O), which equals rowsum(P * dP), and M the dropout mask with its scale:
///   dV = (M * P)^T dO;  dP = M * (dO V^T);  dS = P * (dP - D);  dQ = scale * dS K;  dK = scale * dS^T Q
struct AttentionBackwardArgs {
  ConstTensor query;  // as in forward
  ConstTensor key;
  ConstTensor value;
  ConstTensor out;          // [query_rows, heads * d_head] T: the forward result
  ConstTensor log_sum_exp;  // [heads, query_rows] master
  ConstTensor d_out;        // [query_rows, heads * d_head] T
  const int32_t* query_offsets;
  const int32_t* key_offsets;
  int sentences;
  int heads;
  bool causal = false;
  float scale;
  DropoutKey dropout = {};
  AttentionWork work;
  Tensor d_query;  // [query_rows, heads * d_head] T; rows after the last token are set to zero
  Tensor d_key;    // [key_rows, heads * d_head] T; as d_query
  Tensor d_value;  // [key_rows, heads * d_head] T; as d_query
};
void attention_backward(Context& context, const AttentionBackwardArgs& args);

/// One query per hypothesis against cached keys and values, for incremental decoding. Hypothesis r reads rows
/// key_rows[key_begin[r]] ... key_rows[key_begin[r + 1] - 1] of the caches, in that order: beams share their
/// history without copies.
struct AttentionDecodeArgs {
  ConstTensor query;         // [hypotheses, heads * d_head] T
  ConstTensor key;           // [cache_rows, heads * d_head] T
  ConstTensor value;         // [cache_rows, heads * d_head] T
  const int32_t* key_rows;   // [key_begin[hypotheses]] row of the cache
  const int32_t* key_begin;  // [hypotheses + 1]
  int heads;
  float scale;
  Tensor out;  // [hypotheses, heads * d_head] T
  /// [hypotheses, max_keys] master: mean over heads, zero past the last key, or empty.
  Tensor probabilities = {};
};
void attention_decode(Context& context, const AttentionDecodeArgs& args);

}  // namespace ventris
