#include <cmath>

#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/embedding.h"
#include "backend/kernels_cuda.h"
#include "backend/op_checks.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kWarps = 4;
constexpr int kThreads = 256;
constexpr int64_t kLanePack = int64_t{kWarp} * kPack;  // columns that a warp processes at a time

template <typename T>
struct Forward {
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

/// One warp: one row of `out`, NaN for an index outside of its table. Grid: rows / kWarps.
template <typename T, bool kVectors>
__global__ void embed(Forward<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t r = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
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

/// One block: a part of the ranks of kThreads rows in the order of (index, row): rank[t] += rows of the part
/// that precede row t. Sums of integers do not depend on the order. Rows are compared kThreads at a time:
/// these are all before the block's own, after them, or its own. part_rows: a multiple of kThreads. Grid:
/// (rows / kThreads, parts).
__global__ void rank_rows(const int32_t* index, int rows, int part_rows, int* rank) {
  __align__(16) __shared__ int32_t others[kThreads];
  const int t = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int32_t mine = t < rows ? index[t] : 0;
  const int first = static_cast<int>(blockIdx.y) * part_rows;
  const int end = first + part_rows < rows ? first + part_rows : rows;
  int before = 0;
  for (int begin = first; begin < end; begin += kThreads) {
    const int count = end - begin < kThreads ? end - begin : kThreads;
    sync_threads();
    const bool there = static_cast<int>(threadIdx.x) < count;
    others[threadIdx.x] = there ? index[begin + static_cast<int>(threadIdx.x)] : INT32_MAX;  // before no row
    sync_threads();
    const int own = static_cast<int>(blockIdx.x) * kThreads;
    if (begin < own) {  // then there are kThreads of them
#pragma unroll 16
      for (int i = 0; i < kThreads; ++i) before += others[i] <= mine ? 1 : 0;
    } else if (begin > own) {
#pragma unroll 16
      for (int i = 0; i < kThreads; ++i) before += others[i] < mine ? 1 : 0;
    } else {
      for (int i = 0; i < count; ++i) {
        before += others[i] < mine || (others[i] == mine && begin + i < t) ? 1 : 0;
      }
    }
  }
  if (t < rows) atomic_add(rank + t, before);
}

/// order[rank[t]] = t. One thread: one row.
__global__ void invert_ranks(const int* rank, int rows, int32_t* order) {
  const int t = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (t < rows) order[rank[t]] = t;
}

constexpr int kPiece = 32;  // sorted rows that one warp sums

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
  int64_t cols;
  int64_t table_rows;
  float scale;
  Mask mask;
};

/// One warp: sums the runs of equal index among kPiece sorted rows, in order, for kLanePack columns. A run
/// inside the piece is added to its row of `to`, which no other warp accesses; one that continues from the
/// previous piece or into the next is written to `spans`. Grid: (pieces / kWarps, columns / kLanePack).
template <typename T, bool kVectors>
__global__ void sum_runs(Scatter<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int piece = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int first = piece * kPiece;
  const int64_t begin = int64_t{blockIdx.y} * kLanePack + lane * kPack;
  if (first >= f.rows || begin >= f.cols) return;
  const int end = first + kPiece < f.rows ? first + kPiece : f.rows;
  float sum[kPack] = {};
  bool enters = first > 0 && f.index[f.order[first - 1]] == f.index[f.order[first]];
  for (int i = first; i < end; ++i) {
    const int32_t t = f.order[i];
    const int32_t id = f.index[t];
    float v[kPack];
    load_pack<kVectors>(f.d_out.row(t), begin, f.cols, v);
    f.mask.apply(static_cast<uint32_t>(t), static_cast<uint32_t>(begin / kPack), v);
    const float scale = f.start != nullptr && f.start[t] == 0 ? 0.0F : f.scale;
    for (int k = 0; k < kPack; ++k) sum[k] += scale * v[k];
    const bool goes_on = i + 1 < f.rows && f.index[f.order[i + 1]] == id;
    if (goes_on && i + 1 < end) continue;
    if (enters || goes_on) {
      store_pack<kVectors>(f.spans.row(2 * piece + (enters ? 0 : 1)), begin, f.cols, sum);
    } else if (id >= 0 && id < f.table_rows) {
      float total[kPack];
      load_pack<kVectors>(f.to.row(id), begin, f.cols, total);
      for (int k = 0; k < kPack; ++k) total[k] += sum[k];
      store_pack<kVectors>(f.to.row(id), begin, f.cols, total);
    }
    enters = false;
    for (float& s : sum) s = 0.0F;
  }
}

/// One warp: the run that begins in its piece and continues after it, if any: adds its parts in order and
/// writes the row of `to`. Grid as for sum_runs.
template <typename T, bool kVectors>
__global__ void join_runs(Scatter<T> f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int piece = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / kWarp;
  const int64_t begin = int64_t{blockIdx.y} * kLanePack + lane * kPack;
  const int first = piece * kPiece;
  const int next = first + kPiece;
  if (next >= f.rows || begin >= f.cols) return;
  const int32_t id = f.index[f.order[next]];
  if (f.index[f.order[next - 1]] != id) return;                // no run continues
  if (first > 0 && f.index[f.order[first - 1]] == id) return;  // it began earlier
  if (id < 0 || id >= f.table_rows) return;
  float sum[kPack];
  load_pack<kVectors>(f.spans.row(2 * piece + 1), begin, f.cols, sum);
  while (true) {
    ++piece;
    float part[kPack];
    load_pack<kVectors>(f.spans.row(2 * piece), begin, f.cols, part);
    for (int k = 0; k < kPack; ++k) sum[k] += part[k];
    const int after = (piece + 1) * kPiece;
    if (after >= f.rows || f.index[f.order[after]] != id) break;
  }
  float total[kPack];
  load_pack<kVectors>(f.to.row(id), begin, f.cols, total);
  for (int k = 0; k < kPack; ++k) total[k] += sum[k];
  store_pack<kVectors>(f.to.row(id), begin, f.cols, total);
}

/// to[index[t]] += scale * mask * d_out[t]: the rows are sorted by their index, then runs of equal index are
/// summed.
template <typename T>
void scatter(Context& context, const EmbeddingBackwardArgs& args, const int32_t* index, float scale,
             const int32_t* start, const Tensor& to) {
  const int rows = static_cast<int>(args.d_out.rows);
  const int64_t cols = args.d_out.cols;
  const int64_t pieces = (rows + kPiece - 1) / kPiece;
  cudaStream_t stream = stream_of(context);
  need_scratch(context, static_cast<size_t>(2 * rows) * sizeof(int) +
                            static_cast<size_t>(2 * pieces * cols) * sizeof(float));
  ArenaScope scope(context.scratch());
  int* rank = context.scratch().allocate_array<int>(rows);
  int32_t* order = context.scratch().allocate_array<int32_t>(rows);
  const Tensor spans = context.scratch().allocate(2 * pieces, cols, DType::kF32);
  constexpr int kPartRows = 4096;
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(rank, 0, static_cast<size_t>(rows) * sizeof(int), stream));
  launch({.name = "rank_rows",
          .grid = dim3(blocks_for(rows, kThreads), blocks_for(rows, kPartRows)),
          .block = kThreads},
         stream, rank_rows, index, rows, kPartRows, rank);
  launch({.name = "invert_ranks", .grid = blocks_for(rows, kThreads), .block = kThreads}, stream,
         invert_ranks, rank, rows, order);
  const Scatter<T> f{.index = index,
                     .order = order,
                     .start = start,
                     .d_out = rows_of<T>(args.d_out),
                     .to = rows_of<float>(to),
                     .spans = rows_of<float>(spans),
                     .rows = rows,
                     .cols = cols,
                     .table_rows = to.rows,
                     .scale = scale,
                     .mask = Mask(args.dropout)};
  const dim3 grid(blocks_for(pieces, kWarps), blocks_for(cols, kLanePack));
  dispatch_flag(all_vectors_fit(args.d_out, to, spans), [&](auto vectors) {
    constexpr bool kVectors = decltype(vectors)::value;
    launch({.name = "sum_runs", .grid = grid, .block = kWarps * kWarp}, stream, sum_runs<T, kVectors>, f);
    launch({.name = "join_runs", .grid = grid, .block = kWarps * kWarp}, stream, join_runs<T, kVectors>, f);
  });
}

}  // namespace

void embedding_forward_cuda(Context& context, const EmbeddingForwardArgs& args) {
  dispatch_device_dtype(args.out.dtype, "embedding_forward", [&](auto tag) {
    using T = decltype(tag);
    const Forward<T> f{.ids = args.ids,
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
      launch({.name = "embed", .grid = blocks_for(f.rows, kWarps), .block = kWarps * kWarp},
             stream_of(context), embed<T, decltype(vectors)::value>, f);
    });
  });
}

void embedding_backward_cuda(Context& context, const EmbeddingBackwardArgs& args) {
  if (args.d_out.rows == 0) return;
  dispatch_device_dtype(args.d_out.dtype, "embedding_backward", [&](auto tag) {
    using T = decltype(tag);
    scatter<T>(context, args, args.ids, args.scale, args.zero_start ? args.position : nullptr, args.d_table);
    if (args.d_positions) scatter<T>(context, args, args.position, 1.0F, nullptr, args.d_positions);
  });
}

}  // namespace ventris
