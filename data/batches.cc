// SPDX-License-Identifier: Apache-2.0
#include "data/batches.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "data/error.h"
#include "data/permutation.h"
#include "data/sampled_text.h"

namespace ventris::data {

namespace {

// Each sentence has one row more than tokens: the end mark, or the begin mark of a shifted target.
int64_t rows(const SentenceArray& side, int64_t sentence) {
  return side.length(sentence) + int64_t{1};
}

int64_t longest_rows(const std::vector<CorpusPart>& parts, int CorpusPart::*longest) {
  int64_t rows = 0;
  for (const CorpusPart& part : parts) rows = std::max(rows, part.*longest + int64_t{1});
  return rows;
}

/// The pairs of an epoch after one another, from a position on.
class EpochDraws {
 public:
  EpochDraws(int64_t pairs, uint64_t seed, DataPosition& position)
      : seed_(seed), position_(position), order_(pairs, seed, static_cast<uint64_t>(position.epoch)) {}

  DrawnPair operator*() const { return {.pair = order_(position_.index), .epoch = position_.epoch}; }
  void operator++() {
    if (++position_.index < order_.size()) return;
    position_ = {.epoch = position_.epoch + 1, .index = 0};
    order_ = Permutation(order_.size(), seed_, static_cast<uint64_t>(position_.epoch));
  }

 private:
  uint64_t seed_;
  DataPosition& position_;
  Permutation order_;
};

/// The pairs of a stage after one another, from a position on.
class StageDraws {
 public:
  StageDraws(const BatchSource& source, const std::vector<CorpusPart>& parts, int64_t pairs, uint64_t seed,
             DataPosition& position)
      : position_(position),
        pairs_(pairs),
        stage_(source.mix().stages[static_cast<size_t>(position.mix.stage)], position.mix.stage, parts, seed),
        drawn_(source.drawn(position)) {
    for (const CorpusPart& part : parts) {
      corpora_.push_back(part.pairs > 0 ? std::optional<CorpusOrder>(std::in_place, part, seed)
                                        : std::nullopt);
    }
    find();
  }

  DrawnPair operator*() const { return pair_; }
  void operator++() {
    ++drawn_[part_];
    ++position_.mix.draws;
    if (++position_.index == pairs_) {
      ++position_.epoch;
      position_.index = 0;
    }
    find();
  }

 private:
  void find() {
    part_ = stage_(position_.mix.draws);
    pair_ = (*corpora_[part_])(drawn_[part_]);
  }

  DataPosition& position_;
  const int64_t pairs_;
  StageOrder stage_;
  std::vector<int64_t> drawn_;
  std::vector<std::optional<CorpusOrder>> corpora_;  // none of a corpus without pairs
  size_t part_ = 0;
  DrawnPair pair_{};
};

void check_capacity(const char* side, const char* option, int64_t longest, int64_t tokens, int shards) {
  if (longest > tokens / shards) {
    fail(
        ErrorKind::kBadConfiguration,
        "the longest {} sentence has {} tokens with its end mark, "
        "but each of the {} shards of a batch of {} {} tokens holds {}: raise {} to at least {}, "
        "use fewer shards (--logical-shards, or more --micro-batch-tokens), or prepare the corpus with a smaller --max-length",
        side, longest, shards, tokens, side, tokens / shards, option, longest * shards);
  }
}

}  // namespace

BatchSource::BatchSource(const SentencePairs& pairs, const std::vector<CorpusPart>& parts,
                         const BatchOptions& options)
    : pairs_(pairs), parts_(parts), options_(options), capacity_{} {
  if (pairs.size() == 0) {
    fail(ErrorKind::kBadConfiguration, "the corpus has no sentence pairs for batches");
  }
  if (options.shards < 1) {
    fail(ErrorKind::kBadConfiguration, "a batch needs at least 1 shard, not {}", options.shards);
  }
  check_capacity("source", "--batch-source-tokens", longest_rows(parts, &CorpusPart::longest_source),
                 options.source_tokens, options.shards);
  check_capacity("target", "--batch-target-tokens", longest_rows(parts, &CorpusPart::longest_target),
                 options.target_tokens, options.shards);
  capacity_ = {options.source_tokens / options.shards, options.target_tokens / options.shards};
}

BatchSource::Rows BatchSource::rows_of(const DrawnPair& drawn, const Rows& capacity,
                                       PairTokens& sampled) const {
  if (options_.sampled == nullptr) return {rows(pairs_.source, drawn.pair), rows(pairs_.target, drawn.pair)};
  options_.sampled->sample(drawn, {capacity.source - 1, capacity.target - 1}, sampled);
  return {std::ssize(sampled.source) + 1, std::ssize(sampled.target) + 1};
}

template <typename Draws>
void BatchSource::expect_lengths(Draws&& draws, const Rows& capacity) const {
  const auto pairs_of = [&](const SentenceArray& side, int64_t tokens) {
    const double mean = static_cast<double>(side.total_tokens()) / static_cast<double>(side.size()) + 1.0;
    return static_cast<double>(tokens) * options_.shards / mean;
  };
  const auto count = static_cast<int64_t>(
      std::min(pairs_of(pairs_.source, capacity.source), pairs_of(pairs_.target, capacity.target)));
  std::vector<int64_t> expected(static_cast<size_t>(std::min(count, pairs_.size())));
  for (int64_t& pair : expected) {
    pair = (*draws).pair;
    ++draws;
  }
  std::sort(expected.begin(), expected.end());  // for fewer requests
  pairs_.expect_lengths(expected);
  if (options_.sampled != nullptr) options_.sampled->expect(expected);
}

GlobalBatch BatchSource::at(const DataPosition& position) const {
  check(position);
  const bool expects = pairs_.is_read_in_pieces();
  GlobalBatch batch;
  batch.next = position;
  batch.shard_source_capacity = capacity_.source;
  batch.shard_target_capacity = capacity_.target;
  DataPosition ahead = position;
  if (mix().empty()) {
    const auto from = [this](DataPosition& at) { return EpochDraws(pairs_.size(), options_.seed, at); };
    if (expects) expect_lengths(from(ahead), capacity_);
    fill(batch, from(batch.next));
    return batch;
  }
  batch.next.mix.before.resize(parts_.size(), 0);
  const auto from = [this](DataPosition& at) {
    return StageDraws(*this, parts_, pairs_.size(), options_.seed, at);
  };
  if (expects) expect_lengths(from(ahead), capacity_);
  fill(batch, from(batch.next));
  ++batch.next.mix.steps;
  if (ends_stage(batch.next)) batch.next = after_stage(batch.next);
  return batch;
}

template <typename Draws>
void BatchSource::fill(GlobalBatch& batch, Draws&& draws) const {
  const Rows capacity = {batch.shard_source_capacity, batch.shard_target_capacity};
  Shard shard;
  const auto close_shard = [&] {
    batch.source_tokens += shard.source_rows;
    batch.target_tokens += shard.target_rows;
    batch.pairs += static_cast<int64_t>(shard.pairs.size());
    batch.shards.push_back(std::move(shard));
    shard = Shard{};
    shard.source_row_base = batch.source_tokens;
    shard.target_row_base = batch.target_tokens;
  };
  while (static_cast<int>(batch.shards.size()) < options_.shards) {
    const DrawnPair drawn = *draws;
    PairTokens sampled;
    const auto [source_rows, target_rows] = rows_of(drawn, capacity, sampled);
    if (shard.source_rows + source_rows > capacity.source ||
        shard.target_rows + target_rows > capacity.target) {
      close_shard();
      continue;
    }
    shard.pairs.push_back(drawn);
    if (options_.sampled != nullptr) shard.sampled.push_back(std::move(sampled));
    shard.source_rows += source_rows;
    shard.target_rows += target_rows;
    ++draws;
  }
}

void BatchSource::check(const DataPosition& position) const {
  const int64_t count = pairs_.size();
  if (position.epoch < 0 || position.index < 0 || position.index >= count) {
    fail(ErrorKind::kBadData,
         "position {} of epoch {} is not in a corpus of {} pairs: was the corpus changed?", position.index,
         position.epoch, count);
  }
  const MixPosition& mix = position.mix;
  const bool is_first = mix.before.empty() && mix.stage == 0;
  if (mix.stage < 0 || mix.steps < 0 || mix.draws < 0 || mix.stage > std::ssize(options_.mix.stages) ||
      (!options_.mix.empty() && !is_first && mix.before.size() != parts_.size())) {
    fail(ErrorKind::kBadData,
         "position {} of stage {} of a mix is not in a plan of {} stages and {} corpora: was one changed?",
         mix.draws, mix.stage, options_.mix.stages.size(), parts_.size());
  }
}

const MixStage& BatchSource::stage_of(const DataPosition& position) const {
  return options_.mix.stages[static_cast<size_t>(position.mix.stage)];
}

bool BatchSource::ended(const DataPosition& position) const {
  return !options_.mix.empty() && position.mix.stage >= std::ssize(options_.mix.stages);
}

std::vector<int64_t> BatchSource::drawn(const DataPosition& position) const {
  std::vector<int64_t> drawn = position.mix.before;
  drawn.resize(parts_.size(), 0);
  if (ended(position)) return drawn;
  StageOrder order(stage_of(position), position.mix.stage, parts_, options_.seed);
  const std::vector<int64_t> in_stage = order.counts_of(position.mix.draws);
  for (size_t part = 0; part < drawn.size(); ++part) drawn[part] += in_stage[part];
  return drawn;
}

DataPosition BatchSource::after_stage(const DataPosition& position) const {
  DataPosition next = position;
  next.mix = {.stage = position.mix.stage + 1, .steps = 0, .draws = 0, .before = drawn(position)};
  return next;
}

bool BatchSource::ends_stage(const DataPosition& position) const {
  const StageEnd& end = stage_of(position).end;
  if (end.kind == StageEnd::Kind::kSteps) return position.mix.steps >= end.count;
  if (end.kind != StageEnd::Kind::kEpochs) return false;
  const std::vector<int64_t> drawn_so_far = drawn(position);
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (parts_[part].name == end.corpus)
      return drawn_so_far[part] - position.mix.before[part] >= end.count * parts_[part].pairs;
  }
  return false;
}

}  // namespace ventris::data
