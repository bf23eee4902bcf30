#include "comm/shard_plan.h"

#include <algorithm>

#include "backend/global_norm.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"

namespace ventris {
namespace {

constexpr auto kElementBytes = static_cast<int64_t>(sizeof(float));

}  // namespace

ShardPlan::ShardPlan(int64_t elements, int64_t bucket_bytes, int ranks)
    : elements_(elements), bucket_(0), ranks_(ranks) {
  const int64_t min = std::max(ranks * unit(), elements / (Communicator::kMaxTreeSums - 1) + 1);
  const int64_t wanted = std::max(bucket_bytes / kElementBytes, min);
  bucket_ = (wanted + unit() - 1) / unit() * unit();
}

int64_t ShardPlan::bucket_bytes() const {
  return bucket_ * kElementBytes;
}

int64_t ShardPlan::unit() {
  return kSquaresChunk;
}

TreeNode ShardPlan::segment(int64_t bucket, int rank) const {
  const int64_t begin = bucket * bucket_;
  const TreeNode of_bucket = owned_segment(std::min(bucket_, elements_ - begin), rank, ranks_, unit());
  return {begin + of_bucket.begin, begin + of_bucket.end};
}

std::vector<TreeNode> ShardPlan::ranges_of(int rank) const {
  std::vector<TreeNode> ranges;
  for (int64_t bucket = 0; bucket < buckets(); ++bucket) {
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
