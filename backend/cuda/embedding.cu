// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/embedding.h"
#include "backend/ops/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kEmbeddingWarps = 4;
constexpr int64_t kLanePack = int64_t{kWarp} * kPack;  // columns that a warp processes at a time

template <typename T>
struct EmbeddingForward {
  const int32_t* ids;
  const int32_t* position;
  Rows<const T> table;
  Rows<const float> positions;
  Rows<T> out;
  int64_t rows;
  int64_t cols;
  int64_t vocab;
  int64_t max_positions;
  float scale;
  bool zero_start;
  Mask mask;
};

/// One warp: one row of `out`, NaN for an index outside of its table. Grid: rows / kEmbeddingWarps.
template <typename T, bool kVectors>
__global__ void embed(EmbeddingForward<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{blockIdx.x} * kEmbeddingWarps + threadIdx.x / kWarp;
  if (r >= f.rows) return;
  const int32_t id = f.ids[r];
  const int32_t position = f.position[r];
  const bool known = id >= 0 && id < f.vocab && position >= 0 && position < f.max_positions;
  const float scale = f.zero_start && position == 0 ? 0.0F : f.scale;
  for (int64_t begin = int64_t{lane} * kPack; begin < f.cols; begin += kLanePack) {
    float v[kPack];
    float place[kPack];
    if (known) {
      load_pack<kVectors>(f.table.row(id), begin, f.cols, v);
      load_pack<kVectors>(f.positions.row(position), begin, f.cols, place);
    }
    for (int i = 0; i < kPack; ++i) v[i] = known ? scale * v[i] + place[i] : nanf("");
    f.mask.apply(static_cast<uint32_t>(r), static_cast<uint32_t>(begin / kPack), v);
    store_pack<kVectors>(f.out.row(r), begin, f.cols, v);
  }
}

constexpr int kPiece = kWarp;  // sorted rows that one warp sums, one of each lane
constexpr int kAhead = 4;      // rows that a lane loads before it adds them

template <typename T>
struct Scatter {
  const int32_t* index;
  const int32_t* order;  // rows, sorted by index
  const int32_t* start;  // a row with 0 counts as zeros; or null
  Rows<const T> d_out;
  Rows<float> to;
  Rows<float>
      spans;  // [2 * pieces, cols]: sums of the runs that enter (2 j) and that leave (2 j + 1) piece j
  int rows;
  int cols;
  int64_t table_rows;
  float scale;
  Mask mask;

  /// The index of sorted row i.
  __device__ __forceinline__ int32_t index_of(int i) const { return index[order[i]]; }
  template <bool kWhole>
  __device__ __forceinline__ void add_to_table(int32_t id, int begin, const float (&sum)[kPack]) const {
    if (id < 0 || id >= table_rows) return;
    float total[kPack];
    unpack(load_row_pack<kWhole>(to.row(id), begin, cols), total);
    for (int k = 0; k < kPack; ++k) total[k] += sum[k];
    store_row_pack<kWhole>(to.row(id), begin, cols, total);
  }
};

/// One warp: sums the runs of equal index among kPiece sorted rows, in order, for kLanePack columns. A run
/// inside the piece is added to its row of `to`, which no other warp accesses; one that continues from the
/// previous piece or into the next is written to `spans`. Grid: (pieces / kEmbeddingWarps, columns /
/// kLanePack).
template <typename T, bool kWhole>
__global__ void sum_runs(Scatter<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int piece = static_cast<int>(blockIdx.x) * kEmbeddingWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int first = piece * kPiece;
  const int begin = (static_cast<int>(blockIdx.y) * kWarp + lane) * kPack;
  if (first >= f.rows) return;
  const int count = first + kPiece < f.rows ? kPiece : f.rows - first;
  const int32_t own_row = f.order[first + (lane < count ? lane : 0)];
  const int32_t own_id = f.index[own_row];
  const float own_scale = f.start != nullptr && f.start[own_row] == 0 ? 0.0F : f.scale;
  const bool enters_piece = first > 0 && f.index_of(first - 1) == shuffle(own_id, 0);
  const bool leaves_piece = first + count < f.rows && f.index_of(first + count) == shuffle(own_id, count - 1);
  const int32_t next_id = shuffle_down(own_id, 1);
  // Bit i: the run of row i goes on with the next row, which may be that of the next piece.
  const unsigned continues = ballot(lane + 1 < count ? next_id == own_id : lane + 1 == count && leaves_piece);
  float sum[kPack] = {};
  bool enters = enters_piece;
#pragma unroll 1
  for (int i = 0; i < count; i += kAhead) {
    int32_t row[kAhead];
    Packed<T> ahead[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {  // rows after the last one repeat the first
      row[a] = shuffle(own_row, i + a);
      ahead[a] = load_row_pack<kWhole>(f.d_out.row(row[a]), begin, f.cols);
    }
    uint32_t kept[kAhead];
    for (uint32_t& bits : kept) bits = ~0U;
    if (f.mask.threshold != 0) {
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        kept[a] = f.mask.kept(static_cast<uint32_t>(row[a]), static_cast<uint32_t>(begin / kPack));
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int32_t id = shuffle(own_id, i + a);
      const float scale = shuffle(own_scale, i + a);
      if (i + a >= count) continue;
      float v[kPack];
      unpack(ahead[a], v);
      for (int k = 0; k < kPack; ++k)
        sum[k] += scale * ((kept[a] >> k & 1U) != 0 ? v[k] * f.mask.scale : 0.0F);
      const bool leaves = i + a + 1 == count && leaves_piece;
      if ((continues >> (i + a) & 1U) != 0 && !leaves) continue;
      if (enters || leaves) {
        store_row_pack<kWhole>(f.spans.row(2 * piece + (enters ? 0 : 1)), begin, f.cols, sum);
      } else {
        f.template add_to_table<kWhole>(id, begin, sum);
      }
      enters = false;
      for (float& s : sum) s = 0.0F;
    }
  }
}

/// One warp: the run that begins in its piece and continues after it, if any: adds its parts in order and
/// writes the row of `to`. Grid as for sum_runs.
template <typename T, bool kWhole>
__global__ void join_runs(Scatter<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int piece = static_cast<int>(blockIdx.x) * kEmbeddingWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int begin = (static_cast<int>(blockIdx.y) * kWarp + lane) * kPack;
  const int first = piece * kPiece;
  if (first + kPiece >= f.rows) return;
  const int32_t id = f.index_of(first + kPiece);
  if (f.index_of(first + kPiece - 1) != id) return;      // no run continues
  if (first > 0 && f.index_of(first - 1) == id) return;  // it began earlier
  float sum[kPack];
  unpack(load_row_pack<kWhole>(f.spans.row(2 * piece + 1), begin, f.cols), sum);
  for (int next = piece + 1;; next += kWarp) {
    // Bit i: piece next + i begins with this run. A run is in consecutive pieces.
    const int at = (next + lane) * kPiece;
    const unsigned there = ballot(at < f.rows && f.index_of(at) == id);
#pragma unroll 1
    for (int i = 0; i < kWarp && (there >> i & 1U) != 0; i += kAhead) {
      Packed<float> ahead[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int part = (there >> (i + a) & 1U) != 0 ? next + i + a : next + i;  // the first again
        ahead[a] = load_row_pack<kWhole>(f.spans.row(2 * part), begin, f.cols);
      }
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if ((there >> (i + a) & 1U) == 0) break;
        float part[kPack];
        unpack(ahead[a], part);
        for (int k = 0; k < kPack; ++k) sum[k] += part[k];
      }
    }
    if (there != kAllLanes) break;
  }
  f.template add_to_table<kWhole>(id, begin, sum);
}

/// to[index[t]] += scale * mask * d_out[t]. order: the rows sorted by their index, of which the runs
/// of equal index are summed.
template <typename T>
void scatter(Context& context, const EmbeddingBackwardArgs& args, const int32_t* index, const int32_t* order,
             float scale, const int32_t* start, const Tensor& to) {
  const int rows = static_cast<int>(args.d_out.rows);
  const int64_t cols = args.d_out.cols;
  const int64_t pieces = (rows + kPiece - 1) / kPiece;
  cudaStream_t stream = stream_of(context);
  need_scratch(context, static_cast<size_t>(2 * pieces * cols) * sizeof(float));
  ArenaScope scope(context.scratch());
  const Tensor spans = context.scratch().allocate(2 * pieces, cols, DType::kF32);
  const Scatter<T> f{.index = index,
                     .order = order,
                     .start = start,
                     .d_out = rows_of<T>(args.d_out),
                     .to = rows_of<float>(to),
                     .spans = rows_of<float>(spans),
                     .rows = rows,
                     .cols = static_cast<int>(cols),
                     .table_rows = to.rows,
                     .scale = scale,
                     .mask = Mask(args.dropout)};
  const dim3 grid(blocks_for(pieces, kEmbeddingWarps), blocks_for(cols, kLanePack));
  dispatch_flag(cols % kPack == 0 && all_vectors_fit(args.d_out, to, spans), [&](auto whole) {
    constexpr bool kWhole = decltype(whole)::value;
    launch({.name = "sum_runs", .grid = grid, .block = kEmbeddingWarps * kWarp}, stream, sum_runs<T, kWhole>,
           f);
    launch({.name = "join_runs", .grid = grid, .block = kEmbeddingWarps * kWarp}, stream,
           join_runs<T, kWhole>, f);
  });
}

}  // namespace

void embedding_forward_cuda(Context& context, const EmbeddingForwardArgs& args) {
  dispatch_device_dtype(args.out.dtype, "embedding_forward", [&](auto tag) {
    using T = decltype(tag);
    const EmbeddingForward<T> f{.ids = args.ids,
                                .position = args.position,
                                .table = rows_of<T>(args.table),
                                .positions = rows_of<float>(args.positions),
                                .out = rows_of<T>(args.out),
                                .rows = args.out.rows,
                                .cols = args.out.cols,
                                .vocab = args.table.rows,
                                .max_positions = args.positions.rows,
                                .scale = args.scale,
                                .zero_start = args.zero_start,
                                .mask = Mask(args.dropout)};
    dispatch_flag(all_vectors_fit(args.table, args.positions, args.out), [&](auto vectors) {
      launch({.name = "embed", .grid = blocks_for(f.rows, kEmbeddingWarps), .block = kEmbeddingWarps * kWarp},
             stream_of(context), embed<T, decltype(vectors)::value>, f);
    });
  });
}

void embedding_backward_cuda(Context& context, const EmbeddingBackwardArgs& args) {
  if (args.d_out.rows == 0) return;
  dispatch_device_dtype(args.d_out.dtype, "embedding_backward", [&](auto tag) {
    using T = decltype(tag);
    const int32_t* start = args.zero_start ? args.position : nullptr;
    if (args.d_table) scatter<T>(context, args, args.ids, args.id_order, args.scale, start, args.d_table);
    if (args.d_positions)
      scatter<T>(context, args, args.position, args.position_order, 1.0F, nullptr, args.d_positions);
  });
}

}  // namespace ventris
