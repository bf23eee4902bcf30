// SPDX-License-Identifier: Apache-2.0
#include "trainer/optimizer_shard.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "backend/ops/global_norm.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"
#include "model/transformer_parameters.h"

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

constexpr int64_t kGatheredElements = int64_t{16} << 20;

size_t bytes_of_node(TreeNode elements) {
  return static_cast<size_t>(elements.size()) * sizeof(float);
}

}  // namespace

int64_t bucket_bytes_on(Device device) {
  return device == Device::kCuda ? Communicator::kDeviceBucketBytes : Communicator::kBucketBytes;
}

int64_t tail_of_sums(const ParameterStore& store, Device device) {
  return device == Device::kCuda ? end_of_embeddings(store) : 0;
}

ShardPlan OptimizerShard::plan_of(const ParameterStore& store, Device device, int ranks) {
  return {store.trained_size(), bucket_bytes_on(device), ranks, tail_of_sums(store, device)};
}

OptimizerShard::OptimizerShard(Context& context, ParameterStore& store, int rank, int ranks)
    : context_(context), store_(store), rank_(rank), plan_(plan_of(store, context.device(), ranks)) {
  for (const TreeNode& range : plan_.ranges_of(rank)) {
    ranges_.push_back({range, size_});
    size_ += range.size();
  }
  const std::vector<TreeNode> vectors = vectors_of(store);
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    for (int owner = 0; owner < ranks; ++owner) {
      const TreeNode segment = plan_.segment(bucket, owner);
      if (segment.size() > 0 && !plan_.in_equal_segments(bucket)) left_over_.push_back({owner, segment});
      for (const TreeNode& vector : vectors) {
        const TreeNode part = common_part(vector, segment);
        if (part.size() > 0) vectors_.push_back({owner, part});
      }
    }
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

/// Equal segments are gathered in place; the few other elements are messages of their owners.
void OptimizerShard::share(Communicator& sums, bool compute_copy) const {
  if (!is_part()) return;
  const Tensor shared = compute_copy ? store_.trained_compute_copy() : store_.trained_values();
  std::vector<Tensor> in_equal_segments;
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    const TreeNode elements = plan_.buckets().at(bucket);
    if (plan_.in_equal_segments(bucket))
      in_equal_segments.push_back(shared.col_range(elements.begin, elements.size()));
  }
  TreeMessages messages;
  const auto add = [&](const Owned& owned, const Tensor& flat) {
    const Tensor part = flat.col_range(owned.elements.begin, owned.elements.size());
    if (owned.owner != rank_) return messages.receives.push_back({owned.owner, part});
    for (int peer = 0; peer < plan_.ranks(); ++peer) {
      if (peer != rank_) messages.sends.push_back({peer, part});
    }
  };
  for (const Owned& owned : left_over_) add(owned, shared);
  if (compute_copy) {
    for (const Owned& owned : vectors_) add(owned, store_.trained_values());
  }
  sums.start_all_gather(in_equal_segments);
  sums.start_exchange(messages);
  sums.finish_reductions();
}

/// In pieces, so that rank 0 receives no more than kGatheredElements at once.
void OptimizerShard::collect(Communicator& control, ConstTensor packed, Tensor whole) const {
  const int64_t piece = std::max<int64_t>(1, kGatheredElements / plan_.ranks());
  int64_t at = 0;
  for (int64_t bucket = 0; bucket < plan_.buckets().count(); ++bucket) {
    const int64_t longest = plan_.segment(bucket, 0).size();
    for (int64_t first = 0; first < longest; first += piece) {
      const auto part_of = [&](int rank) {
        const TreeNode segment = plan_.segment(bucket, rank);
        return common_part(segment, {segment.begin + first, segment.begin + first + piece});
      };
      const TreeNode own = part_of(rank_);
      std::string mine(bytes_of_node(own), '\0');
      if (own.size() > 0) copy_to_host(context_, mine.data(), packed.as<float>() + at, mine.size());
      at += own.size();
      const std::vector<std::string> all = control.gather(mine, 0);
      for (int rank = 0; whole && rank < plan_.ranks(); ++rank) {
        const TreeNode part = part_of(rank);
        const std::string& bytes = all[static_cast<size_t>(rank)];
        VENTRIS_CHECK(bytes.size() == bytes_of_node(part), "rank {} sent {} bytes, not {}", rank,
                      bytes.size(), bytes_of_node(part));
        std::memcpy(whole.as<float>() + part.begin, bytes.data(), bytes.size());
      }
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
