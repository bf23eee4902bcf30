// SPDX-License-Identifier: Apache-2.0
#include "launch/step_pairs.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/files/file_io.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/files/json_text.h"
#include "trainer/recorded_stages.h"
#include "trainer/run_shape.h"
#include "trainer/stages.h"
#include "trainer/train_options_json.h"

namespace ventris {

namespace {

struct StepRange {
  int64_t first;
  int64_t last;
};

StepRange range_of(const std::string& text) {
  const std::string_view whole = text;
  const size_t colon = std::min(whole.find(':'), whole.size());
  const auto number = [](std::string_view digits) -> int64_t {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && rest == digits.data() + digits.size() ? value : 0;
  };
  const int64_t first = number(whole.substr(0, colon));
  const int64_t last = colon == whole.size() ? first : number(whole.substr(colon + 1));
  if (first < 1 || last < first)
    fail(ExitCode::kUsage, "--steps '{}': expected A:B, the first and the last step, or one step, from 1",
         text);
  return {first, last};
}

/// The options of the run in the folder, with the present path of its corpus.
TrainOptions options_of_run(const StepPairsRequest& request, const std::string& folder) {
  const TrainOptions& given = request.batches;
  const TrainOptions base = preset_options("base");
  if (given.seed != base.seed || given.logical_shards != base.logical_shards ||
      given.batch_source_tokens != base.batch_source_tokens ||
      given.batch_target_tokens != base.batch_target_tokens) {
    fail(
        ExitCode::kUsage,
        "the batches of the run in {} are those of its config.json; leave out --seed, --batch-source-tokens, "
        "--batch-target-tokens and --logical-shards",
        folder);
  }
  TrainOptions options = recorded_options(folder);
  if (!request.corpus.empty()) {
    options.corpus = request.corpus;
  } else if (!data::is_there(options.corpus)) {
    fail(ExitCode::kMissingInput,
         "there is no corpus {}, on which the run in {} was trained; if it was moved, give its new path with "
         "--corpus",
         options.corpus, folder);
  }
  return options;
}

TrainOptions options_of_corpus(const StepPairsRequest& request, const std::string& path) {
  if (!request.corpus.empty()) fail(ExitCode::kUsage, "--corpus is for a run folder, but {} is none", path);
  TrainOptions options = request.batches;
  options.corpus = path;
  return options;
}

/// The tokens of a pair as training sees them.
data::PairTokens tokens_of(const data::Corpus& corpus, const data::Shard& shard, size_t i) {
  if (!shard.sampled.empty()) return shard.sampled[i];
  const data::TokenView source = corpus.train().source[shard.pairs[i].pair];
  const data::TokenView target = corpus.train().target[shard.pairs[i].pair];
  return {.source = {source.begin(), source.end()}, .target = {target.begin(), target.end()}};
}

nlohmann::ordered_json pair_json(const data::Corpus& corpus, const data::Shard& shard, size_t i) {
  const data::DrawnPair& drawn = shard.pairs[i];
  const auto& parts = corpus.parts();
  const auto part = std::find_if(parts.begin(), parts.end() - 1, [&](const data::CorpusPart& one) {
    return drawn.pair < one.first + one.pairs;
  });
  const auto [source, target] = tokens_of(corpus, shard, i);
  return {{"corpus", part->name},
          {"pair", drawn.pair - part->first + 1},
          {"epoch", drawn.epoch},
          {"source_tokens", source.size()},
          {"target_tokens", target.size()},
          {"source", corpus.tokenizers().source().decode(source)},
          {"target", corpus.tokenizers().target().decode(target)}};
}

/// The values of an object with tabs between them.
std::string table_line(const nlohmann::ordered_json& object) {
  std::string line;
  for (const auto& value : object) {
    if (!line.empty()) line += '\t';
    line += value.is_string() ? value.get<std::string>() : value.dump();
  }
  return line + "\n";
}

std::string table_heading(const nlohmann::ordered_json& object) {
  std::string line;
  for (const auto& [key, value] : object.items()) line += (line.empty() ? "" : "\t") + key;
  return line + "\n";
}

}  // namespace

void add_step_pair_options(StepPairsRequest& request, OptionTable& table) {
  constexpr int64_t kManyTokens = int64_t{1} << 30;
  TrainOptions& batches = request.batches;
  table.group("Pairs of steps");
  table.optional_text(
      "steps", "A:B", request.steps,
      "Prints a line for each sentence pair of these training steps, from 1, or of one step, in the order of "
      "the batches: step, logical shard from 0, stage of the plan if the run has one, corpus, number of the "
      "pair in its corpus from 1, epoch, tokens of both sides without marks, and both texts.");
  table.optional_text("corpus", "FILE", request.corpus, "Present path of the corpus of a run folder.");
  table.integer("seed", batches.seed, {}, "For a corpus file: as in train.");
  table.integer("batch-source-tokens", batches.batch_source_tokens, {.min = 1, .max = kManyTokens},
                "For a corpus file: as in train.");
  table.integer("batch-target-tokens", batches.batch_target_tokens, {.min = 1, .max = kManyTokens},
                "For a corpus file: as in train.");
  table.integer("logical-shards", batches.logical_shards, {.min = 0, .max = 65536},
                "For a corpus file: micro-batches per global batch. 0: as of one rank on a CPU.");
  table.without_effect({"corpus", "seed", "batch-source-tokens", "batch-target-tokens", "logical-shards"},
                       "steps", {""});
}

int print_step_pairs(const StepPairsRequest& request, const std::string& path, bool json, const Job& job) {
  const StepRange range = range_of(request.steps);
  const bool of_run = data::is_folder(path);
  const TrainOptions options = of_run ? options_of_run(request, path) : options_of_corpus(request, path);
  const data::Corpus corpus(options.corpus);
  const data::MixPlan plan = resolved_mix(options, {}, corpus);
  RecordedStages recorded{.mix = {.plan = data::to_text(plan), .ended = {}}};
  RecordedPosition at;
  if (of_run) {
    recorded = recorded_stages(path, data::to_text(plan));
    at = recorded_position(path, range.first - 1);
    if (!recorded.corpus_digest.empty() && recorded.corpus_digest != corpus.digest()) {
      fail(
          ExitCode::kBadConfiguration,
          "{} has digest {}, but the run in {} was trained on a corpus of digest {}: give that one by --corpus",
          options.corpus, corpus.digest(), path, recorded.corpus_digest);
    }
    if (range.last > recorded.last_step)
      fail(ExitCode::kUsage, "--steps {}: {} has recorded {} steps", request.steps, path, recorded.last_step);
  }
  const int shards = resolved_shards(options, {}, 1, Device::kCpu, longest_rows(corpus));
  if (options.logical_shards == 0)
    say(job, fmt::format("The batches are those of --logical-shards {}, as of one rank on a CPU", shards));
  const data::BatchSource batches(corpus.train(), corpus.parts(),
                                  {.source_tokens = options.batch_source_tokens,
                                   .target_tokens = options.batch_target_tokens,
                                   .shards = shards,
                                   .seed = options.seed,
                                   .mix = plan.empty() ? plan : plan_as_it_was(recorded.mix),
                                   .sampled = sampled_text(options, corpus)});
  bool headed = json;
  while (at.step < range.last) {
    ++at.step;
    const int64_t stage = at.position.mix.stage;
    const data::GlobalBatch batch = batches.at(at.position);
    at.position = batch.next;
    if (at.step < range.first) continue;
    std::string lines;
    for (size_t shard = 0; shard < batch.shards.size(); ++shard) {
      for (size_t i = 0; i < batch.shards[shard].pairs.size(); ++i) {
        nlohmann::ordered_json object = {{"step", at.step}, {"shard", shard}};
        if (!plan.empty()) object["stage"] = plan.stages[static_cast<size_t>(stage)].name;
        object.update(pair_json(corpus, batch.shards[shard], i));
        if (!headed) lines += table_heading(object);
        headed = true;
        lines += json ? json_text(object) + "\n" : table_line(object);
      }
    }
    write_output(lines);
  }
  return 0;
}

}  // namespace ventris
