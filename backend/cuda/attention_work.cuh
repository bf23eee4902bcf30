// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "backend/cuda/attention.h"
#include "backend/cuda/attention_inputs.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/mma.cuh"

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

/// All data of an item, so that a block waits for one copy and not for two; in two pieces of 16 bytes.
struct alignas(16) WorkItem {
  int32_t query_begin;
  int32_t queries;
  int32_t key_begin;
  int32_t keys;
  int32_t first;  // first query, or key, of the tile in its sentence
  int32_t unused[3];

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

/// Heads of a sentence that share a block, and blocks for all heads, for tiles of kTile rows.
template <int kTile>
inline constexpr int kHeadsOfTile = kTileRows / kTile;
template <int kTile>
__device__ __forceinline__ int head_groups(int heads) {
  return (heads + kHeadsOfTile<kTile> - 1) / kHeadsOfTile<kTile>;
}

/// One of the kinds of turns of a kernel: `turns` in all, `groups` of heads for each item.
struct TurnKind {
  const WorkItem* items;  // or null, for kinds without items
  int turns;
  int groups;
  int heads;  // of a group
};
/// All items of a list, for groups of heads that share a block. kTile: rows of a head in the block.
template <int kTile>
__device__ __forceinline__ TurnKind kind_of(const WorkLists& work, WorkList list, int heads) {
  const int groups = head_groups<kTile>(heads);
  return {work.items[list], work.counts[list] * groups, groups, kHeadsOfTile<kTile>};
}
/// Numbers from 0 to `turns` - 1, as Turn::head.
__device__ __forceinline__ TurnKind kind_of_numbers(int turns) {
  return {nullptr, turns, turns, 1};
}

/// What a block does in a turn.
struct Turn {
  WorkItem item;
  int32_t kind;
  int32_t head;  // the first of the group
};

/// The next turn of a block, in shared memory. Thread 0 draws its ticket when the current turn begins; the
/// ticket arrives while tiles are copied, and the item while the block works.
class NextTurn {
 public:
  __device__ __forceinline__ NextTurn(int32_t* ticket, const TurnKind* kinds, int count, Turn* to)
      : kinds_(kinds), count_(count), to_(to) {
    if (threadIdx.x == 0) drawn_ = atomic_add(ticket, 1);
  }
  /// Waits for the ticket and begins to copy the item. To be called once, by all threads, where they would
  /// wait for copies anyway. The item is there after async_commit, async_wait and a barrier.
  __device__ __forceinline__ void begin() const {
    if (threadIdx.x != 0) return;
    int turn = drawn_;
    int kind = 0;
#pragma unroll 1
    for (; kind < count_ && turn >= kinds_[kind].turns; ++kind) turn -= kinds_[kind].turns;
    to_->kind = kind;
    if (kind == count_) return;
    const TurnKind& drawn = kinds_[kind];
    const int item = turn / drawn.groups;
    to_->head = (turn - item * drawn.groups) * drawn.heads;
    if (drawn.items == nullptr) return;
    const WorkItem& from = drawn.items[item];
    async_copy_16(&to_->item.query_begin, &from.query_begin);
    async_copy_16(&to_->item.first, &from.first);
  }

 private:
  const TurnKind* kinds_;
  int count_;
  Turn* to_;
  int32_t drawn_ = 0;
};

/// Distributes the work of a grid: calls body(turn, next) in one block for every turn of all kinds, in this
/// order; the body calls next.begin(). kinds: [kKinds] in shared memory, written by thread 0 before. All
/// threads of all blocks must call. Between two turns the block is synchronised. The last block to leave
/// resets the tickets, since the lists serve other kernels too. Requires: kernels that draw from one list
/// never run at the same time, on two streams or as nodes of a graph without an edge between them: they would
/// share out the turns of one of them, and reset the tickets while the other draws.
template <int kKinds, typename Body>
__device__ __forceinline__ void take_turns(int32_t* ticket, const TurnKind (&kinds)[kKinds],
                                           const Body& body) {
  __shared__ Turn turns[2];
  NextTurn(ticket, kinds, kKinds, turns).begin();
  for (int current = 0;; current ^= 1) {
    async_commit();
    async_wait<0>();
    sync_threads();
    const Turn& turn = turns[current];
    if (turn.kind == kKinds) break;
    body(turn, NextTurn(ticket, kinds, kKinds, turns + (current ^ 1)));
  }
  const int blocks = static_cast<int>(gridDim.x);
  // Atomic like the additions of the other blocks, which nothing else orders before.
  if (threadIdx.x == 0 && atomic_add(ticket + 1, 1) == blocks - 1) {
    atomic_set(ticket, 0);
    atomic_set(ticket + 1, 0);
  }
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
