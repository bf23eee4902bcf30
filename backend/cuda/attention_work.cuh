#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/attention_cuda.h"
#include "backend/cuda/attention_inputs.cuh"
#include "backend/cuda/launch.cuh"

/// The pieces of work of attention. Lengths are known only on the device, and the shape of a launch does not
/// depend on them: so a small kernel lists the pieces, and the blocks of the next kernels take them one by
/// one by drawing tickets. Results depend neither on the order of a list nor on the assignment to blocks.
namespace ventris::cuda {

inline constexpr int kTileRows = 64;  // queries (keys) of the tile of a block, over all its heads
inline constexpr int kTensorWarps = 4;
inline constexpr int kTensorThreads = kTensorWarps * kWarp;

/// Lists of pieces. A sentence whose queries and keys are at most 16, 32 or 64 is one piece; four, two or one
/// of its heads share a block. Longer ones are cut into tiles of 64 queries, and into tiles of 64 keys.
enum WorkList { kSentences16, kSentences32, kSentences64, kQueryTiles, kKeyTiles, kWorkLists };

/// All data of an item, so that a block waits for one load and not for two.
struct WorkItem {
  int32_t query_begin;
  int32_t queries;
  int32_t key_begin;
  int32_t keys;
  int32_t first;  // first query, or key, of the tile in its sentence

  __device__ __forceinline__ Span span(int head, int d_head) const {
    return {query_begin, queries, key_begin, keys, int64_t{head} * d_head};
  }
};
struct WorkLists {
  int32_t* counts;  // [kWorkLists] items of each list
  int32_t* ticket;  // of the next piece, and the number of blocks that have found none left
  WorkItem* items[kWorkLists];
};
WorkLists lists_of(const AttentionWork& work);

/// The lists of the caller of an operation, if given; otherwise enqueues the listing, into the scratch arena,
/// which needs an ArenaScope.
template <typename Args>
WorkLists work_of(Context& context, const Args& args) {
  if (args.work) return lists_of(args.work);
  const AttentionWork work = plan_attention_work(context.scratch(), Device::kCuda, DType::kBF16,
                                                 args.sentences, args.query.rows, args.key.rows);
  list_attention_work_cuda(context, {.query_offsets = args.query_offsets,
                                     .key_offsets = args.key_offsets,
                                     .sentences = args.sentences,
                                     .work = work});
  return lists_of(work);
}
/// Scratch bytes that work_of() allocates.
template <typename Args>
size_t work_scratch_bytes(const Args& args) {
  return args.work ? 0 : attention_work_bytes_cuda(args.sentences, args.query.rows, args.key.rows);
}
/// Upper bounds on items and tiles of padding, by the shapes alone.
template <typename Args>
int64_t max_tiles(const Args& args) {
  return 2 * int64_t{args.sentences} + args.query.rows / kTileRows + args.key.rows / kTileRows + 2;
}

/// Distributes the work of a grid: calls body(kind, turn) in one block for every turn below turns[kind], for
/// all kinds, in this order. turns: [kKinds] in shared memory, written by thread 0 before; not in registers,
/// which the body needs. All threads of all blocks must call. Between two turns the block is synchronised.
/// The last block to leave resets the tickets, since the lists serve other kernels too.
template <int kKinds, typename Body>
__device__ __forceinline__ void take_turns(int32_t* ticket, const int (&turns)[kKinds], const Body& body) {
  __shared__ int32_t next;
  if (threadIdx.x == 0) next = atomic_add(ticket, 1);
  sync_threads();
  while (true) {
    int turn = next;
    int kind = 0;
    for (; kind < kKinds && turn >= turns[kind]; ++kind) turn -= turns[kind];
    if (kind == kKinds) {
      const int blocks = static_cast<int>(gridDim.x);
      // Atomic like the additions of the other blocks, which nothing else orders before.
      if (threadIdx.x == 0 && atomic_add(ticket + 1, 1) == blocks - 1) {
        atomic_set(ticket, 0);
        atomic_set(ticket + 1, 0);
      }
      return;
    }
    int32_t following = 0;  // drawn early: it arrives while the block works
    if (threadIdx.x == 0) following = atomic_add(ticket, 1);
    body(kind, turn);
    sync_threads();
    if (threadIdx.x == 0) next = following;
    sync_threads();
  }
}

/// Heads of a sentence that share a block, and blocks for all heads, for tiles of kTile rows.
template <int kTile>
inline constexpr int kHeadsOfTile = kTileRows / kTile;
template <int kTile>
__device__ __forceinline__ int head_groups(int heads) {
  return (heads + kHeadsOfTile<kTile> - 1) / kHeadsOfTile<kTile>;
}

/// Tiles of rows after the last token, which are set to zero.
__device__ __forceinline__ int padding_tiles(int64_t rows, int32_t begin) {
  return static_cast<int>((rows - begin + kTileRows - 1) / kTileRows);
}
/// The block: zeros for the rows of padding tile `tile`. Rows must be aligned for vectors.
__device__ __forceinline__ void clear_padding(const Rows<BF16>& tensor, int64_t rows, int cols, int32_t begin,
                                              int tile) {
  const int64_t first = begin + int64_t{tile} * kTileRows;
  const int64_t end = first + kTileRows < rows ? first + kTileRows : rows;
  for (int64_t r = first + threadIdx.x / kWarp; r < end; r += kTensorWarps) {
    for (int c = static_cast<int>(threadIdx.x % kWarp) * kPack; c < cols; c += kWarp * kPack) {
      *reinterpret_cast<uint4*>(tensor.row(r) + c) = {0, 0, 0, 0};
    }
  }
}

/// Whether the kernels on tensor cores take these tensors; the f32 kernels take all.
template <typename... Tensors>
bool tensor_cores_take(int64_t d_head, const ConstTensor& query, const Tensors&... others) {
  return query.dtype == DType::kBF16 && (d_head == 32 || d_head == 64 || d_head == 128) &&
         all_vectors_fit(query, others...);
}
/// Calls body with the size of a head.
template <typename Body>
void dispatch_head(int64_t d_head, Body&& body) {
  if (d_head == 32) return body(std::integral_constant<int, 32>{});
  if (d_head == 64) return body(std::integral_constant<int, 64>{});
  body(std::integral_constant<int, 128>{});
}

}  // namespace ventris::cuda
