// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_reducer.h"

#include <algorithm>

#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/ops/add.h"
#include "backend/ops/cast.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

constexpr size_t kAlignment = 128;  // of pieces of an arena

GradientBuckets buckets_of(Tensor data, int64_t bucket_bytes, int64_t tail) {
  // One more sum for the loss, one for a part of the tail.
  const int64_t min = data.cols / (Communicator::kMaxTreeSums - 2) + 1;
  return {data.cols, std::max(bucket_bytes / static_cast<int64_t>(size_of(data.dtype)), min), tail};
}

}  // namespace

TreeReducer::TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
                         Tensor loss_sums, int64_t bucket_bytes, int64_t tail)
    : TreeReducer(context, communicator, shards, gradients, loss_sums,
                  buckets_of(gradients, bucket_bytes > 0 ? bucket_bytes : communicator.bucket_bytes(), tail),
                  {.unit = kTreeUnit, .to_all = true}) {}

TreeReducer::TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
                         Tensor loss_sums, const ShardPlan& owners)
    : TreeReducer(context, communicator, shards, gradients, loss_sums, owners.buckets(),
                  {.unit = ShardPlan::unit(), .to_all = false}) {}

TreeReducer::TreeReducer(Context& context, Communicator& communicator, int64_t shards, Tensor gradients,
                         Tensor loss_sums, const GradientBuckets& buckets, const Segments& segments)
    : context_(context),
      communicator_(communicator),
      share_(shards, share_of_rank(shards, communicator.rank(), communicator.size())),
      terms_(share_of_rank(shards, communicator.rank(), communicator.size())),
      layout_(shards, communicator.rank(), communicator.size()),
      gradients_{.data = gradients, .buckets = buckets, .segments = segments},
      loss_{.data = loss_sums,
            .buckets = GradientBuckets(loss_sums.cols, loss_sums.cols),
            .segments = {.unit = kTreeUnit, .to_all = true}},
      memory_(context.device(), bytes_of(gradients_) + bytes_of(loss_) + kAlignment,
              "partial sums of gradients (with --reduction reproducible fewer --logical-shards need less)") {
  VENTRIS_CHECK(gradients.rows == 1 && loss_sums.rows == 1, "flat ranges are summed, not {} and {} rows",
                gradients.rows, loss_sums.rows);
  allocate(gradients_);
  allocate(loss_);
}

int64_t TreeReducer::room_of(const Range& range, int64_t bucket) const {
  return TreeSum::room_for(layout_, range.buckets.at(bucket).size(), range.segments.unit);
}

size_t TreeReducer::bytes_of(const Range& range) const {
  int64_t elements = share_.stack_size() * range.data.cols;
  for (int64_t bucket = 0; bucket < range.buckets.count(); ++bucket) elements += room_of(range, bucket);
  return static_cast<size_t>(elements) * size_of(range.data.dtype) +
         static_cast<size_t>(share_.stack_size() + range.buckets.count()) * kAlignment;
}

void TreeReducer::allocate(Range& range) {
  for (int i = 0; i < share_.stack_size(); ++i)
    range.stack.push_back(memory_.allocate(1, range.data.cols, range.data.dtype));
  for (int64_t bucket = 0; bucket < range.buckets.count(); ++bucket)
    range.received.push_back(memory_.allocate(1, room_of(range, bucket), range.data.dtype));
}

void TreeReducer::set_aside(int64_t shard) {
  VENTRIS_CHECK(terms_.begin <= shard && shard + 1 < terms_.end,
                "shard {} is not one of this rank's ({} to {}) before its last", shard, terms_.begin,
                terms_.end);
  set_aside(gradients_, shard);
  set_aside(loss_, shard);
}

void TreeReducer::set_aside(Range& range, int64_t shard) {
  const auto remain = static_cast<size_t>(share_.stacked_before(shard) - share_.additions_after(shard));
  add_last_shard(range, shard, {0, range.data.cols}, range.stack[remain]);
  fill_zero(context_, range.data);
}

/// sum = the sums on the stack that the shard completes, the oldest + (... + (the newest + the shard)).
void TreeReducer::add_last_shard(Range& range, int64_t shard, TreeNode elements, const Tensor& sum) {
  const auto part = [&](const Tensor& whole) { return whole.col_range(elements.begin, elements.size()); };
  const auto stacked = static_cast<size_t>(share_.stacked_before(shard));
  const int additions = share_.additions_after(shard);
  AddArgs args;
  for (size_t i = stacked - static_cast<size_t>(additions); i < stacked; ++i)
    args.steps.push_back({.term = part(range.stack[i]), .additions = 0});
  args.steps.push_back({.term = part(range.data), .additions = additions, .sum = part(sum)});
  if (additions > 0 || sum.data != range.data.data) add(context_, args);
}

void TreeReducer::loss_ready() {
  loss_.buckets.ready(0, [this](int64_t begin, int64_t count) { start(loss_, begin, count); });
}

void TreeReducer::ready(int64_t begin) {
  VENTRIS_DCHECK(begin >= 0, "{} is not an element", begin);
  gradients_.buckets.ready(begin,
                           [this](int64_t bucket, int64_t count) { start(gradients_, bucket, count); });
  communicator_.progress();
}

/// Adds the sums on the stack to the last shard in a bucket, and starts its sum over the ranks.
void TreeReducer::start(Range& range, int64_t begin, int64_t count) {
  const auto part = [&](const Tensor& whole) { return whole.col_range(begin, count); };
  const int64_t bucket = range.buckets.index_of(begin);
  TreeSum sum = {.context = &context_,
                 .layout = &layout_,
                 .result = part(range.data),
                 .received = range.received[static_cast<size_t>(bucket)],
                 .unit = range.segments.unit,
                 .to_all = range.segments.to_all};
  if (terms_.size() > 0) {
    add_last_shard(range, terms_.end - 1, {begin, begin + count}, range.data);
    for (size_t i = 0; i + 1 < share_.nodes().size(); ++i) sum.partials.push_back(part(range.stack[i]));
    sum.partials.push_back(sum.result);
  }
  communicator_.start_tree_sum(sum);
}

void TreeReducer::finish() {
  const int64_t begun = gradients_.buckets.begun();
  VENTRIS_CHECK(begun == 0, "elements before {} were never ready", begun);
  VENTRIS_CHECK(loss_.buckets.begun() == 0, "the loss was never ready");
  communicator_.finish_reductions();
  gradients_.buckets.start_again();
  loss_.buckets.start_again();
}

}  // namespace ventris
