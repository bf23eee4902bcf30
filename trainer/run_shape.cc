// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_shape.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "backend/device/error.h"
#include "model/batch_stage.h"

namespace ventris {
namespace {

// If --micro-batch-tokens is 0. A GPU processes the batches of the paper in one piece.
constexpr int64_t kCpuMicroBatchTokens = 4096;
constexpr int64_t kCudaMicroBatchTokens = 32768;
// The minimum if they must not depend on the ranks: up to this many ranks, powers of two have equal work.
constexpr int64_t kReproducibleShards = 8;
// With more ranks the batch decides: a shard holds at least this many tokens, twice the longest sentence of a
// corpus with the --max-length of prepare's default.
constexpr int64_t kMinReproducibleTokens = 512;

}  // namespace

std::string resolve_begin_embedding(TrainOptions& options, const std::string& recorded,
                                    const data::Corpus& corpus) {
  if (options.begin_embedding != "auto") return "";
  const bool has_begin = corpus.tokenizers().target().has_begin();
  options.begin_embedding = !recorded.empty() ? recorded : has_begin ? "learned" : "none";
  if (!recorded.empty() || has_begin) return "";
  return "the vocabulary has no begin mark, so the decoder begins without an embedding, from zeros "
         "(--begin-embedding none)";
}

void resolve_tie(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus) {
  const std::string all = name_of(Tie::kAll);
  const bool shared = corpus.tokenizers().shared();
  if (options.tie == "auto") {
    const bool keeps = !recorded.empty() && (shared || recorded != all);
    options.tie = keeps ? recorded : shared ? all : name_of(Tie::kDecoder);
  }
  const std::optional<Tie> tie = tie_named(options.tie);
  if (!tie)
    fail(ExitCode::kBadConfiguration, "--tie is {}; it must be auto, all, decoder or none", options.tie);
  options.model.tie = *tie;
}

void complete_model(TransformerConfig& model, const TrainOptions& options, const data::Corpus& corpus) {
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  model.vocab_size = tokenizers.target().vocab_size();
  model.source_vocab_size = tokenizers.shared() ? 0 : tokenizers.source().vocab_size();
  if (options.begin_embedding == "zero") model.zero_token = tokenizers.target().begin_id();
  model.zero_start = options.begin_embedding == "none";
  model.validate();
  if (corpus.max_length() >= model.max_positions) {
    fail(ExitCode::kBadConfiguration,
         "the longest sentence of {} has {} tokens; "
         "with its end mark it needs --max-positions {} or more, not {}",
         corpus.path(), corpus.max_length(), corpus.max_length() + 1, model.max_positions);
  }
}

std::shared_ptr<const data::SampledText> sampled_text(const TrainOptions& options,
                                                      const data::Corpus& corpus) {
  if (options.sample_source == 0.0 && options.sample_target == 0.0) return nullptr;
  return std::make_shared<const data::SampledText>(
      corpus, data::SampleOptions{.source_alpha = options.sample_source,
                                  .target_alpha = options.sample_target,
                                  .seed = options.seed,
                                  .max_length = options.model.max_positions - int64_t{1}});
}

/// Rows are a multiple of the tiles of matrix products on GPUs.
MicroBatchCapacity training_capacity(const data::BatchSource& batches) {
  const auto padded = [](int64_t rows) { return (rows + kTileRows - 1) / kTileRows * kTileRows; };
  return {.source_rows = padded(batches.shard_source_capacity()),
          .target_rows = padded(batches.shard_target_capacity()),
          .sentences =
              static_cast<int>(std::min(batches.shard_source_capacity(), batches.shard_target_capacity()))};
}

MicroBatchCapacity validation_capacity(const data::Corpus& corpus, ValidationRows rows) {
  const int64_t max = std::max<int64_t>(rows.loss, corpus.max_length() + int64_t{1});
  return {.source_rows = max, .target_rows = max, .sentences = static_cast<int>(max)};
}

MicroBatchCapacity model_capacity(const data::BatchSource& batches, const data::Corpus& corpus,
                                  Device device) {
  const MicroBatchCapacity training = training_capacity(batches);
  const MicroBatchCapacity validating = validation_capacity(corpus, validation_rows_of(device));
  return {std::max(training.source_rows, validating.source_rows),
          std::max(training.target_rows, validating.target_rows),
          std::max(training.sentences, validating.sentences)};
}

LongestRows longest_rows(const data::Corpus& corpus) {
  LongestRows longest{};
  for (const data::CorpusPart& part : corpus.parts()) {
    longest.source = std::max(longest.source, part.longest_source + int64_t{1});
    longest.target = std::max(longest.target, part.longest_target + int64_t{1});
  }
  return longest;
}

int resolved_shards(const TrainOptions& options, const ResumePoint& from, int ranks, Device device,
                    const LongestRows& longest) {
  if (options.logical_shards > 0) return options.logical_shards;
  if (from.logical_shards > 0) return from.logical_shards;
  if (const int64_t rows = std::max(longest.source, longest.target);
      options.micro_batch_tokens > 0 && options.micro_batch_tokens < rows) {
    fail(
        ExitCode::kBadConfiguration,
        "--micro-batch-tokens is {}, but the longest sentence of {} has {} tokens with its end mark: give at "
        "least {}, or prepare the corpus with a smaller --max-length",
        options.micro_batch_tokens, options.corpus, rows, rows);
  }
  const int64_t max = options.micro_batch_tokens > 0 ? options.micro_batch_tokens
                      : device == Device::kCpu       ? kCpuMicroBatchTokens
                                                     : kCudaMicroBatchTokens;
  const int64_t tokens = std::max(options.batch_source_tokens, options.batch_target_tokens);
  const int64_t min = (tokens + max - 1) / max;
  if (options.reduction == Reduction::kReproducible) {
    const auto at_least = [](int64_t shards) {
      return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(shards)));
    };
    int64_t shards = at_least(std::max(min, kReproducibleShards));
    if (ranks > shards) {
      const int64_t smaller = std::min(options.batch_source_tokens, options.batch_target_tokens);
      const auto most = std::bit_floor(static_cast<uint64_t>(smaller / kMinReproducibleTokens));
      shards = std::max(shards, static_cast<int64_t>(most));
    }
    const auto too_many = [&] {
      return options.batch_source_tokens / shards < longest.source ||
             options.batch_target_tokens / shards < longest.target;
    };
    while (shards > at_least(min) && too_many()) shards /= 2;
    return static_cast<int>(shards);
  }
  return static_cast<int>((min + ranks - 1) / ranks * ranks);
}

}  // namespace ventris
