// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/step_pairs.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "launch/output.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/mix_state.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/observers/metrics_reader.h"
#include "trainer/observers/run_status.h"
#include "trainer/run_shape.h"
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

/// What the checkpoints of a run say; the state of a beginning where there is none.
struct Recorded {
  TrainingState newest = {};
  TrainingState before = {};  // of the newest checkpoint before the wanted steps
};

Recorded recorded_before(int64_t first_step, const std::string& folder) {
  Recorded recorded;
  std::vector<std::string> checkpoints = list_checkpoints(folder);
  if (!checkpoints.empty()) recorded.newest = read_state(data::Hdf5Reader(checkpoints.back()));
  std::erase_if(checkpoints, [&](const std::string& path) { return step_of_checkpoint(path) >= first_step; });
  if (!checkpoints.empty()) recorded.before = read_state(data::Hdf5Reader(checkpoints.back()));
  return recorded;
}

/// The newest step of a run that its checkpoints, its status or its log know of.
int64_t last_known_step(const TrainingState& newest, const std::string& folder) {
  const std::optional<StatusRecord> status = read_status(folder);
  const MetricsRecord log = read_metrics(folder + "/metrics.jsonl");
  return std::max({newest.step, status ? status->step : 0, log.places.empty() ? 0 : log.places.back().step});
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

}  // namespace

void add_step_pair_options(StepPairsRequest& request, OptionTable& table) {
  table.group("Pairs of steps");
  table.optional_text(
      "steps", "A:B", request.steps,
      "Prints the sentence pairs of steps A to B of a run, or of step A alone, in the order of the batches, one "
      "JSON object per line: step from 1, logical shard from 0, stage of the plan if the run has one, corpus, number "
      "of the pair in its corpus from 1, epoch, tokens of both sides without marks, and both texts.");
  table.optional_text("corpus", "FILE", request.corpus, "Present path of the corpus of the run.");
  table.without_effect({"corpus"}, "steps", {""});
}

int print_step_pairs(const StepPairsRequest& request, const std::string& folder) {
  const StepRange range = range_of(request.steps);
  if (!data::is_folder(folder)) fail(ExitCode::kUsage, "--steps needs a run folder; {} is no folder", folder);
  const TrainOptions options = options_of_run(request, folder);
  const data::Corpus corpus(options.corpus);
  const auto [newest, before] = recorded_before(range.first, folder);
  if (!newest.corpus_digest.empty() && newest.corpus_digest != corpus.digest()) {
    fail(
        ExitCode::kBadConfiguration,
        "{} has digest {}, but the run in {} was trained on a corpus of digest {}: give that one by --corpus",
        options.corpus, corpus.digest(), folder, newest.corpus_digest);
  }
  if (!options.mix.empty() && range.last > newest.step) {
    fail(ExitCode::kUsage,
         "--steps {}: the newest checkpoint of {} is of step {}; later steps of a mix are not known yet",
         request.steps, folder, newest.step);
  }
  if (const int64_t last = last_known_step(newest, folder); range.last > last)
    fail(ExitCode::kUsage, "--steps {}: the run in {} has no step after {} yet", request.steps, folder, last);
  const data::MixPlan plan = newest.mix.plan.empty() ? data::MixPlan{} : plan_as_it_was(newest.mix);
  const data::BatchSource batches(
      corpus.train(), corpus.parts(),
      {.source_tokens = options.batch_source_tokens,
       .target_tokens = options.batch_target_tokens,
       .shards =
           options.logical_shards > 0 ? options.logical_shards : static_cast<int>(newest.logical_shards),
       .seed = options.seed,
       .mix = plan,
       .sampled = sampled_text(options, corpus)});
  data::DataPosition position = before.position;
  for (int64_t step = before.step + 1; step <= range.last; ++step) {
    const int64_t stage = position.mix.stage;
    const data::GlobalBatch batch = batches.at(position);
    position = batch.next;
    if (step < range.first) continue;
    std::string lines;
    for (size_t shard = 0; shard < batch.shards.size(); ++shard) {
      for (size_t i = 0; i < batch.shards[shard].pairs.size(); ++i) {
        nlohmann::ordered_json object = {{"step", step}, {"shard", shard}};
        if (!plan.empty()) object["stage"] = plan.stages[static_cast<size_t>(stage)].name;
        object.update(pair_json(corpus, batch.shards[shard], i));
        lines += json_text(object) + "\n";
      }
    }
    write_output(lines);
  }
  return 0;
}

}  // namespace ventris
