// SPDX-License-Identifier: Apache-2.0
#include "trainer/batch_feed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "data/error.h"
#include "model/flop_count.h"

namespace ventris {
namespace {

constexpr size_t kStepsAhead = 2;

}  // namespace

HostBatch host_batch_of(const data::PackedBatch& packed) {
  return {.source_ids = packed.source_ids,
          .source_position = packed.source_position,
          .source_offsets = packed.source_offsets,
          .target_ids = packed.target_ids,
          .target_position = packed.target_position,
          .labels = packed.labels,
          .target_offsets = packed.target_offsets};
}

BatchFeed::BatchFeed(Context& context, const data::Corpus& corpus, const data::BatchSource& source,
                     const TransformerConfig& config, const MicroBatchCapacity& capacity, const Share& share,
                     const Start& start)
    : corpus_(corpus),
      source_(source),
      config_(config),
      share_(share),
      stages_{Stage{BatchStage(context, capacity, training_orders(context.device(), config),
                               staged_weights_of(corpus.train()))},
              Stage{BatchStage(context, capacity, training_orders(context.device(), config),
                               staged_weights_of(corpus.train()))}},
      thread_([this, start] { work(start.position, start.step); }) {}

BatchFeed::~BatchFeed() {
  stop();
}

void BatchFeed::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BatchFeed::restart(const Start& start) {
  stop();
  if (taken_ > 0) stage(taken_ - 1).stage.wait_until_sent();
  ends_ = false;
  steps_.clear();
  filled_ = freed_ = taken_;
  failure_ = nullptr;
  thread_ = std::thread([this, start] { work(start.position, start.step); });
}

template <typename Condition>
bool BatchFeed::wait_to_fill(Condition&& condition) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ends_ || condition(); });
  return !ends_;
}

template <typename Condition>
void BatchFeed::wait_to_take(Condition&& condition) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || condition(); });
  if (!condition()) std::rethrow_exception(failure_);
}

void BatchFeed::work(data::DataPosition position, int64_t step) {
  try {
    for (; !source_.ended(position); ++step) {
      const data::GlobalBatch batch = source_.at(position);
      position = batch.next;
      expect_tokens(batch);
      if (!wait_to_fill([&] { return steps_.size() < kStepsAhead; })) return;
      {
        const std::lock_guard lock(mutex_);
        steps_.push_back(batch);
      }
      changed_.notify_all();
      for (int64_t s = share_.begin; s < share_.end; ++s) {
        const auto stages = static_cast<int64_t>(stages_.size());
        if (!wait_to_fill([&] { return filled_ - freed_ < stages; })) return;
        fill(batch.shards[static_cast<size_t>(s)], batch, step);
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
  }
  changed_.notify_all();
}

void BatchFeed::expect_tokens(const data::GlobalBatch& batch) const {
  std::vector<int64_t> pairs;
  for (int64_t s = share_.begin; s < share_.end; ++s) {
    const data::Shard& shard = batch.shards[static_cast<size_t>(s)];
    if (!shard.sampled.empty()) continue;  // read already
    for (const data::DrawnPair& drawn : shard.pairs) pairs.push_back(drawn.pair);
  }
  std::sort(pairs.begin(), pairs.end());  // for fewer requests
  corpus_.train().expect_tokens(pairs);
}

void BatchFeed::fill(const data::Shard& shard, const data::GlobalBatch& batch, int64_t step) {
  data::Packer packer(corpus_.tokenizers(), packed_);
  const data::SentencePairs& pairs = corpus_.train();
  for (size_t i = 0; i < shard.pairs.size(); ++i) {
    const int64_t pair = shard.pairs[i].pair;
    if (shard.sampled.empty()) {
      packer.add(pairs.source[pair], pairs.target[pair], pairs.weight(pair));
    } else {
      packer.add(shard.sampled[i].source, shard.sampled[i].target, pairs.weight(pair));
    }
  }
  // The rows of the other shards are counted from these numbers, and the file may change at any moment.
  if (packed_.source_rows() != shard.source_rows || packed_.target_rows() != shard.target_rows) {
    data::fail(data::ErrorKind::kBadData,
               "{}: pairs of {} and {} rows were planned for step {}, but {} and {} were read: it changed",
               corpus_.path(), shard.source_rows, shard.target_rows, step, packed_.source_rows(),
               packed_.target_rows());
  }
  HostBatch host = host_batch_of(packed_);
  if (pairs.weighted()) host.weights = packed_.weights;
  host.source_dropout = {static_cast<uint32_t>(step), static_cast<uint32_t>(shard.source_row_base)};
  host.target_dropout = {static_cast<uint32_t>(step), static_cast<uint32_t>(shard.target_row_base)};
  host.gradient_scale = static_cast<float>(1.0 / static_cast<double>(batch.target_tokens));
  host.source_room = batch.shard_source_capacity;
  host.target_room = batch.shard_target_capacity;
  for (const data::Shard& any : batch.shards) {
    host.max_sentences = std::max(host.max_sentences, static_cast<int>(any.pairs.size()));
  }
  Stage& to = stage(filled_);  // only this thread writes filled_
  to.stage.fill(host);
  to.flops = training_flops(config_, packed_.source_offsets, packed_.target_offsets);
  {
    const std::lock_guard lock(mutex_);
    ++filled_;
  }
  changed_.notify_all();
}

data::GlobalBatch BatchFeed::next_step() {
  wait_to_take([&] { return !steps_.empty(); });
  const std::lock_guard lock(mutex_);
  data::GlobalBatch batch = std::move(steps_.front());
  steps_.pop_front();
  changed_.notify_all();
  return batch;
}

BatchFeed::Piece BatchFeed::next_micro_batch() {
  if (taken_ > 0) {
    stage(taken_ - 1).stage.wait_until_sent();
    const std::lock_guard lock(mutex_);
    freed_ = taken_;
    changed_.notify_all();
  }
  wait_to_take([&] { return filled_ > taken_; });
  Stage& next = stage(taken_);
  const auto index = static_cast<int>(taken_++ % static_cast<int64_t>(stages_.size()));
  next.stage.send();
  return {next.stage.batch(), next.flops, index};
}

}  // namespace ventris
