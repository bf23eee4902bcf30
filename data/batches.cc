#include "data/batches.h"

#include <algorithm>

#include "data/error.h"
#include "data/permutation.h"

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

void check_capacity(const char* side, const char* option, int64_t longest, int64_t tokens, int shards) {
  if (longest > tokens / shards) {
    fail(ErrorKind::kBadConfiguration,
         "the longest {} sentence has {} tokens with its end mark, "
         "but each of the {} shards of a batch of {} {} tokens holds {}: raise {} to at least {}, "
         "use fewer shards, or prepare the corpus with a smaller --max-length",
         side, longest, shards, tokens, side, tokens / shards, option, longest * shards);
  }
}

}  // namespace

BatchSource::BatchSource(const SentencePairs& pairs, const std::vector<CorpusPart>& parts,
                         const BatchOptions& options)
    : pairs_(pairs), options_(options), source_capacity_(0), target_capacity_(0) {
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
  source_capacity_ = options.source_tokens / options.shards;
  target_capacity_ = options.target_tokens / options.shards;
}

void BatchSource::expect_lengths(const DataPosition& position) const {
  const auto pairs_of = [&](const SentenceArray& side, int64_t tokens) {
    const double mean = static_cast<double>(side.total_tokens()) / static_cast<double>(side.size()) + 1.0;
    return static_cast<double>(tokens) / mean;
  };
  const auto count = static_cast<int64_t>(std::min(pairs_of(pairs_.source, options_.source_tokens),
                                                   pairs_of(pairs_.target, options_.target_tokens)));
  const Permutation order(pairs_.size(), options_.seed, static_cast<uint64_t>(position.epoch));
  std::vector<int64_t> expected(static_cast<size_t>(std::min(count, pairs_.size() - position.index)));
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = order(position.index + static_cast<int64_t>(i));
  pairs_.expect_lengths(expected);
}

GlobalBatch BatchSource::at(const DataPosition& position) const {
  const int64_t count = pairs_.size();
  if (position.epoch < 0 || position.index < 0 || position.index >= count) {
    fail(ErrorKind::kBadData,
         "position {} of epoch {} is not in a corpus of {} pairs: was the corpus changed?", position.index,
         position.epoch, count);
  }
  if (pairs_.is_read_in_pieces()) expect_lengths(position);
  GlobalBatch batch;
  batch.next = position;
  Permutation order(count, options_.seed, static_cast<uint64_t>(position.epoch));
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
    const int64_t pair = order(batch.next.index);
    const int64_t source_rows = rows(pairs_.source, pair);
    const int64_t target_rows = rows(pairs_.target, pair);
    if (shard.source_rows + source_rows > source_capacity_ ||
        shard.target_rows + target_rows > target_capacity_) {
      close_shard();
      continue;
    }
    shard.pairs.push_back({.pair = pair, .epoch = batch.next.epoch});
    shard.source_rows += source_rows;
    shard.target_rows += target_rows;
    if (++batch.next.index == count) {
      batch.next = {batch.next.epoch + 1, 0};
      order = Permutation(count, options_.seed, static_cast<uint64_t>(batch.next.epoch));
    }
  }
  return batch;
}

Packer::Packer(int32_t begin_id, int32_t end_id, PackedBatch& packed)
    : begin_id_(begin_id), end_id_(end_id), packed_(packed) {
  for (auto* array : {&packed.source_ids, &packed.source_position, &packed.source_offsets, &packed.target_ids,
                      &packed.target_position, &packed.target_offsets, &packed.labels}) {
    array->clear();
  }
  packed.source_offsets.push_back(0);
  packed.target_offsets.push_back(0);
}

void Packer::end_pair() {
  packed_.source_ids.push_back(end_id_);
  packed_.labels.push_back(end_id_);
  const auto end_side = [](std::vector<int32_t>& positions, std::vector<int32_t>& offsets, size_t rows) {
    const size_t count = rows - positions.size();
    for (size_t i = 0; i < count; ++i) positions.push_back(static_cast<int32_t>(i));
    offsets.push_back(static_cast<int32_t>(rows));
  };
  end_side(packed_.source_position, packed_.source_offsets, packed_.source_ids.size());
  end_side(packed_.target_position, packed_.target_offsets, packed_.target_ids.size());
}

}  // namespace ventris::data
