// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <type_traits>

#include "backend/cpu/dropout.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "backend/ops/embedding.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

constexpr int64_t kRows = 32;  // rows of one piece of work

/// The row of the table; of a packed table, unpacked into `room`, [d].
template <typename T>
const T* token_of(const EmbeddingForwardArgs& args, int32_t id, T* room) {
  if constexpr (!std::is_same_v<T, double>) {
    if constexpr (std::is_same_v<T, float>) {
      if (args.packed_table.packing == Packing::kInt8) {
        int8_copy_column(args.packed_table, id, room);
        return room;
      }
    }
    if (args.packed_table) {
      copy_column(args.packed_table, id, room);
      return room;
    }
  }
  return args.table.row<T>(id);
}

template <typename T>
void forward(Context& context, const EmbeddingForwardArgs& args) {
  using M = Master<T>;
  const int64_t d = args.out.cols;
  const int64_t room = dropout_room(1, d);
  const int threads = context.pool().threads();
  need_scratch(context, static_cast<size_t>(threads * room) * sizeof(uint16_t) +
                            static_cast<size_t>(threads * d) * sizeof(T));
  ArenaScope scope(context.scratch());
  T* all_tokens = context.scratch().allocate_array<T>(threads * d);
  const int64_t vocab = args.packed_table ? args.packed_table.cols : args.table.rows;
  uint16_t* all_bits = context.scratch().allocate_array<uint16_t>(threads * room);
  const M table_scale = static_cast<M>(args.scale);
  const auto threshold = static_cast<uint16_t>(args.dropout.threshold());
  const M mask_scale = static_cast<M>(args.dropout.scale());
  context.pool().for_ranges(args.out.rows, kRows, [&](int64_t begin, int64_t end, int thread) {
    uint16_t* bits = all_bits + thread * room;
    for (int64_t t = begin; t < end; ++t) {
      const int32_t id = args.ids[t];
      const int32_t position = args.position[t];
      VENTRIS_CHECK(id >= 0 && id < vocab, "ids[{}] is {}, the vocabulary holds {}", t, id, vocab);
      VENTRIS_CHECK(position >= 0 && position < args.positions.rows,
                    "position[{}] is {}, the table of positions holds {}", t, position, args.positions.rows);
      const T* token = token_of(args, id, all_tokens + thread * d);
      const M token_scale = args.zero_start && position == 0 ? M{0} : table_scale;
      const M* place = args.positions.row<M>(position);
      T* out = args.out.row<T>(t);
      if (args.dropout.active()) {
        dropout_row(args.dropout, static_cast<uint32_t>(t), d, 0, bits);
#pragma omp simd
        for (int64_t c = 0; c < d; ++c) {
          const M kept = std::fma(token_scale, load(token[c]), place[c]) * mask_scale;
          store(out[c], bits[c] < threshold ? M{0} : kept);
        }
      } else {
#pragma omp simd
        for (int64_t c = 0; c < d; ++c) store(out[c], std::fma(token_scale, load(token[c]), place[c]));
      }
    }
  });
}

/// to[index[t]] += scale * mask * d_out[t] for the rows t whose index belongs to `part` of `parts`,
/// without those at position 0 if requested. Every row of `to` is summed by one part in order of t: the sums
/// do not depend on the number of parts.
template <typename T>
void scatter(const EmbeddingBackwardArgs& args, const int32_t* index, double scale, bool without_start,
             const Tensor& to, int64_t part, int64_t parts, uint16_t* bits) {
  using M = Master<T>;
  const int64_t d = args.d_out.cols;
  const bool masked = args.dropout.active();
  const auto threshold = static_cast<uint16_t>(args.dropout.threshold());
  const M factor = static_cast<M>(scale * (masked ? args.dropout.scale() : 1.0));
  for (int64_t t = 0; t < args.d_out.rows; ++t) {
    if (index[t] % parts != part || (without_start && args.position[t] == 0)) continue;
    const T* d_out = args.d_out.row<T>(t);
    M* sum = to.row<M>(index[t]);
    if (masked) {
      dropout_row(args.dropout, static_cast<uint32_t>(t), d, 0, bits);
#pragma omp simd
      for (int64_t c = 0; c < d; ++c) {
        const M kept = factor * load(d_out[c]);
        sum[c] += bits[c] < threshold ? M{0} : kept;
      }
    } else {
#pragma omp simd
      for (int64_t c = 0; c < d; ++c) sum[c] = std::fma(factor, load(d_out[c]), sum[c]);
    }
  }
}

template <typename T>
void backward(Context& context, const EmbeddingBackwardArgs& args) {
  const int64_t room = dropout_room(1, args.d_out.cols);
  const int threads = context.pool().threads();
  need_scratch(context, static_cast<size_t>(threads * room) * sizeof(uint16_t));
  ArenaScope scope(context.scratch());
  uint16_t* all_bits = context.scratch().allocate_array<uint16_t>(threads * room);
  for (int64_t t = 0; t < args.d_out.rows; ++t) {
    VENTRIS_CHECK(!args.d_table || (args.ids[t] >= 0 && args.ids[t] < args.d_table.rows),
                  "ids[{}] is {}, the vocabulary holds {}", t, args.ids[t], args.d_table.rows);
    VENTRIS_CHECK(!args.d_positions || (args.position[t] >= 0 && args.position[t] < args.d_positions.rows),
                  "position[{}] is {}, the table of positions holds {}", t, args.position[t],
                  args.d_positions.rows);
  }
  const int64_t parts = threads;
  context.pool().for_each(parts, [&](int64_t part, int thread) {
    uint16_t* bits = all_bits + thread * room;
    if (args.d_table) {
      scatter<T>(args, args.ids, static_cast<double>(args.scale), args.zero_start, args.d_table, part, parts,
                 bits);
    }
    if (args.d_positions) scatter<T>(args, args.position, 1.0, false, args.d_positions, part, parts, bits);
  });
}

}  // namespace

void embedding_forward_cpu(Context& context, const EmbeddingForwardArgs& args) {
  dispatch_dtype(args.out.dtype, [&](auto tag) { forward<decltype(tag)>(context, args); });
}

void embedding_backward_cpu(Context& context, const EmbeddingBackwardArgs& args) {
  dispatch_dtype(args.d_out.dtype, [&](auto tag) { backward<decltype(tag)>(context, args); });
}

}  // namespace ventris
