// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/attention_work.cuh"
#include "backend/ops/op_checks.h"

namespace ventris::cuda {
namespace {

constexpr int kListThreads = 1024;
constexpr int kHeader = 32;  // numbers before the items: counts and tickets
static_assert(kHeader >= kWorkLists + 2);

__device__ __forceinline__ int set_bits(unsigned v) {
  v -= v >> 1 & 0x55555555U;
  v = (v & 0x33333333U) + (v >> 2 & 0x33333333U);
  v = (v + (v >> 4)) & 0x0F0F0F0FU;
  return static_cast<int>((v * 0x01010101U) >> 24);
}

__device__ __forceinline__ void list_tiles(WorkItem item, int rows, int* count, WorkItem* items) {
  const int tiles = (rows + kTileRows - 1) / kTileRows;
  WorkItem* to = items + atomic_add(count, tiles);
  for (; item.first < rows; item.first += kTileRows) *to++ = item;
}

/// One block, which is the grid: writes all lists, their counts, and tickets of zero.
__global__ void __launch_bounds__(kListThreads)
    list_work(const int32_t* query_offsets, const int32_t* key_offsets, int sentences, WorkLists work) {
  __shared__ int counts[kWorkLists];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  if (thread < kWorkLists) counts[thread] = 0;
  sync_threads();
  for (int first = 0; first < sentences; first += kListThreads) {
    const int s = first + thread;
    WorkItem item = {};
    if (s < sentences) {
      item.query_begin = query_offsets[s];
      item.queries = query_offsets[s + 1] - item.query_begin;
      item.key_begin = key_offsets[s];
      item.keys = key_offsets[s + 1] - item.key_begin;
    }
    const int longest = item.queries > item.keys ? item.queries : item.keys;
    if (longest > kTileRows) {
      list_tiles(item, item.queries, counts + kQueryTiles, work.items[kQueryTiles]);
      list_tiles(item, item.keys, counts + kKeyTiles, work.items[kKeyTiles]);
    }
    int below = 0;
#pragma unroll
    for (int list = kSentences16; list <= kSentences64; ++list) {
      const int max = kTileRows >> (kSentences64 - list);
      const bool mine = longest > below && longest <= max;
      const unsigned lanes = ballot(mine);
      below = max;
      if (lanes == 0) continue;
      int at = 0;
      if (lane == 0) at = atomic_add(counts + list, set_bits(lanes));
      at = shuffle(at, 0);
      if (mine) work.items[list][at + set_bits(lanes & ((1U << lane) - 1U))] = item;
    }
  }
  sync_threads();
  if (thread < kWorkLists) work.counts[thread] = counts[thread];
  if (thread < 2) work.ticket[thread] = 0;
}

}  // namespace

WorkLists lists_of(const AttentionWork& work) {
  const int64_t query_tiles = work.sentences + work.query_rows / kTileRows;
  const int64_t max[kWorkLists] = {work.sentences, work.sentences, work.sentences, query_tiles, 0};
  auto* counts = static_cast<int32_t*>(work.memory);
  auto* items = reinterpret_cast<WorkItem*>(counts + kHeader);
  WorkLists lists{.counts = counts, .ticket = counts + kWorkLists, .items = {}};
  for (int list = 0; list < kWorkLists; items += max[list++]) lists.items[list] = items;
  return lists;
}

}  // namespace ventris::cuda

namespace ventris {

size_t attention_work_bytes_cuda(int sentences, int64_t query_rows, int64_t key_rows) {
  const int64_t tiles = (query_rows + key_rows) / cuda::kTileRows;
  return sizeof(int32_t) * cuda::kHeader +
         sizeof(cuda::WorkItem) * static_cast<size_t>(int64_t{5} * sentences + tiles);
}

void list_attention_work_cuda(Context& context, const AttentionWorkArgs& args) {
  using namespace cuda;
  launch({.name = "list_work", .grid = 1, .block = kListThreads}, stream_of(context), list_work,
         args.query_offsets, args.key_offsets, args.sentences, lists_of(args.work));
}

}  // namespace ventris
