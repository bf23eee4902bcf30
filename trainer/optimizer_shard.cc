#include "trainer/optimizer_shard.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/cast.h"
#include "backend/context.h"
#include "backend/error.h"
#include "backend/global_norm.h"
#include "backend/transfer.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"
#include "trainer/run_shape.h"

namespace ventris {
namespace {

/// The vectors that a store trains, in order. Gaps between them are zero on every rank.
std::vector<TreeNode> vectors_of(const ParameterStore& store) {
  constexpr int64_t kGap = 64;
  std::vector<TreeNode> all;
  for (const LogicalParameter& parameter : store.logical()) {
    if (!parameter.vector || parameter.frozen) continue;
    const int64_t begin = store.gradient_begin(parameter.tensor) + parameter.col_begin;
    if (!all.empty() && begin - all.back().end < kGap) {
      all.back().end = begin + parameter.cols;
    } else {
      all.push_back({begin, begin + parameter.cols});
    }
  }
  return all;
}

TreeNode common_part(TreeNode a, TreeNode b) {
  return {std::max(a.begin, b.begin), std::max(std::max(a.begin, b.begin), std::min(a.end, b.end))};
}

size_t bytes_of_node(TreeNode elements) {
  return static_cast<size_t>(elements.size()) * sizeof(float);
}

}  // namespace

ShardPlan OptimizerShard::plan_of(const ParameterStore& store, Device device, int ranks) {
  return {store.trained_size(), bucket_bytes_on(device), ranks, tail_of_sums(store, device)};
}

OptimizerShard::OptimizerShard(Context& context, ParameterStore& store, int rank, int ranks)
    : context_(context),
      store_(store),
      rank_(rank),
      plan_(plan_of(store, context.device(), ranks)),
      vectors_(vectors_of(store)) {
  for (const TreeNode& range : plan_.ranges_of(rank)) {
    ranges_.push_back({range, size_});
    size_ += range.size();
  }
}

int64_t OptimizerShard::partial_sums() const {
  return squares_chunks(plan_.elements());
}

void OptimizerShard::sum_of_squares(Communicator& sums, Tensor partial, double* result) const {
  fill_zero(context_, partial);
  for (const Range& range : ranges_) {
    squares_of_chunks(context_,
                      {.x = store_.gradients().col_range(range.elements.begin, range.elements.size()),
                       .partial = partial.as<double>() + range.elements.begin / kSquaresChunk});
  }
  // Each element is a number of one rank and zeros of the others: the sum is exact.
  sums.start_all_reduce_sum(partial);
  sums.finish_reductions();
  sum_of_chunks(context_, {.partial = partial.as<double>(), .count = partial.cols, .result = result});
}

void OptimizerShard::share_parameters(Communicator& sums) const {
  share(sums, static_cast<bool>(store_.compute_copy()));
}

void OptimizerShard::share_masters(Communicator& sums) const {
  share(sums, /*compute_copy=*/false);
}

/// One exchange for each bucket, so that a group of messages stays small.
void OptimizerShard::share(Communicator& sums, bool compute_copy) const {
  if (!is_part()) return;
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    TreeMessages messages;
    const auto add = [&](std::vector<TreeMessage>& to, int peer, Tensor flat, TreeNode elements) {
      if (elements.size() > 0) to.push_back({peer, flat.col_range(elements.begin, elements.size())});
    };
    const auto add_segment = [&](std::vector<TreeMessage>& to, int peer, TreeNode segment) {
      if (!compute_copy) return add(to, peer, store_.trained_values(), segment);
      add(to, peer, store_.trained_compute_copy(), segment);
      for (const TreeNode& vector : vectors_)
        add(to, peer, store_.trained_values(), common_part(vector, segment));
    };
    for (int peer = 0; peer < plan_.ranks(); ++peer) {
      if (peer == rank_) continue;
      add_segment(messages.sends, peer, plan_.segment(bucket, rank_));
      add_segment(messages.receives, peer, plan_.segment(bucket, peer));
    }
    sums.start_exchange(messages);
  }
  sums.finish_reductions();
}

void OptimizerShard::collect(Communicator& control, ConstTensor packed, Tensor whole) const {
  int64_t at = 0;
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    const TreeNode own = plan_.segment(bucket, rank_);
    std::string mine(bytes_of_node(own), '\0');
    if (own.size() > 0) copy_to_host(context_, mine.data(), packed.as<float>() + at, mine.size());
    at += own.size();
    const std::vector<std::string> all = control.all_gather(mine);
    for (int rank = 0; whole && rank < plan_.ranks(); ++rank) {
      const TreeNode segment = plan_.segment(bucket, rank);
      const std::string& bytes = all[static_cast<size_t>(rank)];
      VENTRIS_CHECK(bytes.size() == bytes_of_node(segment), "rank {} sent {} bytes, not {}", rank,
                    bytes.size(), bytes_of_node(segment));
      std::memcpy(whole.as<float>() + segment.begin, bytes.data(), bytes.size());
    }
  }
}

void OptimizerShard::distribute(Communicator& control, ConstTensor whole, Tensor packed) const {
  int64_t at = 0;
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    const TreeNode all = {plan_.segment(bucket, 0).begin, plan_.segment(bucket, plan_.ranks() - 1).end};
    std::string bytes;
    if (whole) bytes.assign(reinterpret_cast<const char*>(whole.as<float>() + all.begin), bytes_of_node(all));
    bytes = control.broadcast(bytes, 0);
    VENTRIS_CHECK(bytes.size() == bytes_of_node(all), "rank 0 sent {} bytes, not {}", bytes.size(),
                  bytes_of_node(all));
    const TreeNode own = plan_.segment(bucket, rank_);
    const char* const from = bytes.data() + bytes_of_node({all.begin, own.begin});
    if (own.size() > 0) copy_to_device(context_, packed.as<float>() + at, from, bytes_of_node(own));
    at += own.size();
  }
}

}  // namespace ventris
