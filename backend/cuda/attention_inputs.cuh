// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/cuda/elements.cuh"
#include "backend/ops/attention.h"

/// Inputs of all attention kernels.
namespace ventris::cuda {

/// The rows of one sentence and the columns of one head.
struct Span {
  int64_t query_begin;
  int queries;
  int64_t key_begin;
  int keys;
  int64_t column;
};

template <typename T>
struct AttentionInputs {
  Rows<const T> query, key, value;
  const int32_t* query_offsets;
  const int32_t* key_offsets;
  int sentences;
  int heads;
  int d_head;
  bool causal;
  float scale;
  Mask mask;

  template <typename Args>
  explicit AttentionInputs(const Args& args)
      : query(rows_of<T>(args.query)),
        key(rows_of<T>(args.key)),
        value(rows_of<T>(args.value)),
        query_offsets(args.query_offsets),
        key_offsets(args.key_offsets),
        sentences(args.sentences),
        heads(args.heads),
        d_head(static_cast<int>(args.query.cols / args.heads)),
        causal(args.causal),
        scale(args.scale),
        mask(args.dropout) {}

  __device__ __forceinline__ Span span(int sentence, int head) const {
    return {query_offsets[sentence], query_offsets[sentence + 1] - query_offsets[sentence],
            key_offsets[sentence], key_offsets[sentence + 1] - key_offsets[sentence], int64_t{head} * d_head};
  }
  /// The number of keys that query i of a sentence sees.
  __device__ __forceinline__ int limit(int i, int keys) const {
    return causal && i + 1 < keys ? i + 1 : keys;
  }
};

}  // namespace ventris::cuda
