// SPDX-License-Identifier: Apache-2.0
#include "comm/shard_plan.h"

#include <algorithm>

#include "backend/ops/global_norm.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"

namespace ventris {
namespace {

constexpr auto kElementBytes = static_cast<int64_t>(sizeof(float));

int64_t elements_of_bucket(int64_t elements, int64_t bucket_bytes) {
  // One more sum for the loss, one for a part of the tail, and one for what is left.
  return std::max(bucket_bytes / kElementBytes, elements / (Communicator::kMaxTreeSums - 3) + 1);
}

}  // namespace

ShardPlan::ShardPlan(int64_t elements, int64_t bucket_bytes, int ranks, int64_t tail)
    : buckets_(elements, elements_of_bucket(elements, bucket_bytes), tail, ranks * unit()), ranks_(ranks) {}

int64_t ShardPlan::unit() {
  return kSquaresChunk;
}

TreeNode ShardPlan::segment(int64_t bucket, int rank) const {
  const TreeNode all = buckets_.at(bucket);
  const TreeNode part = owned_segment(all.size(), rank, ranks_, unit());
  return {all.begin + part.begin, all.begin + part.end};
}

std::vector<TreeNode> ShardPlan::ranges_of(int rank) const {
  std::vector<TreeNode> ranges;
  for (int64_t bucket = 0; bucket < buckets_.count(); ++bucket) {
    const TreeNode part = segment(bucket, rank);
    if (part.size() == 0) continue;
    if (!ranges.empty() && ranges.back().end == part.begin) {
      ranges.back().end = part.end;
    } else {
      ranges.push_back(part);
    }
  }
  return ranges;
}

int64_t ShardPlan::size_of_share(int rank) const {
  int64_t size = 0;
  for (const TreeNode& range : ranges_of(rank)) size += range.size();
  return size;
}

int64_t ShardPlan::largest_share() const {
  int64_t largest = 0;
  for (int rank = 0; rank < ranks_; ++rank) largest = std::max(largest, size_of_share(rank));
  return largest;
}

}  // namespace ventris
