// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "backend/error.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/files/file_io.h"
#include "data/pair_lengths.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/mix_option.h"
#include "launch/output.h"
#include "launch/train_option_table.h"
#include "trainer/files/json_text.h"
#include "trainer/host_memory.h"
#include "trainer/recorded_stages.h"
#include "trainer/run_shape.h"
#include "trainer/stages.h"
#include "trainer/train_options_json.h"

namespace ventris {

namespace {

struct OrderCommandOptions {
  TrainCommandOptions train;
  std::string run;    // folder
  std::string steps;  // A:B
  bool text = false;
  bool json = false;
};

struct StepRange {
  int64_t first;
  int64_t last;
};

constexpr int64_t kMaxSteps = 4294967295;  // as of --max-steps

StepRange range_of(const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const auto number = [&](std::string_view digits) -> int64_t {
    int64_t value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && rest == digits.data() + digits.size() ? value : 0;
  };
  const std::string_view whole = text;
  const int64_t first = number(whole.substr(0, colon));
  const int64_t last = colon == text.size() ? first : number(whole.substr(colon + 1));
  if (first < 1 || last < first || last > kMaxSteps) {
    fail(ExitCode::kUsage,
         "--steps '{}': expected A:B, the first and the last step, or one step, from 1 to {}", text,
         kMaxSteps);
  }
  return {first, last};
}

/// The options of the run in the folder; only the corpus may be given again.
void take_run(OrderCommandOptions& options) {
  const TrainOptions defaults = preset_options("base");
  TrainOptions& train = options.train.train;
  if (!options.train.mix.empty() || train.seed != defaults.seed ||
      train.batch_source_tokens != defaults.batch_source_tokens ||
      train.batch_target_tokens != defaults.batch_target_tokens ||
      train.batch_warmup != defaults.batch_warmup || train.logical_shards != defaults.logical_shards ||
      train.micro_batch_tokens != defaults.micro_batch_tokens || train.sample_source != 0.0 ||
      train.sample_target != 0.0) {
    fail(
        ExitCode::kUsage,
        "--model-dir takes seed, batches, plan and sampling from its config.json; leave out --seed, --mix, "
        "--batch-source-tokens, --batch-target-tokens, --batch-warmup, --logical-shards, --micro-batch-tokens, "
        "--sample-source and --sample-target");
  }
  const std::string corpus = train.corpus;
  train = recorded_options(options.run);
  if (!corpus.empty()) {
    train.corpus = corpus;
  } else if (!data::is_there(train.corpus)) {
    fail(ExitCode::kMissingInput,
         "there is no corpus {}, on which the run in {} was trained; if it was moved, give its new path with "
         "--corpus",
         train.corpus, options.run);
  }
}

/// Writes a line for each pair of the steps.
class OrderWriter {
 public:
  OrderWriter(const OrderCommandOptions& options, const data::Corpus& corpus)
      : options_(options), corpus_(corpus) {
    if (options.json) return;
    heading_ = "step\tshard\tstage\tcorpus\tpair\tepoch\tsource_tokens\ttarget_tokens";
    heading_ += options.text ? "\tsource\ttarget\n" : "\n";
  }

  void write(int64_t step, const std::string& stage, const data::GlobalBatch& batch) {
    std::string lines = std::exchange(heading_, "");
    for (size_t shard = 0; shard < batch.shards.size(); ++shard) {
      const data::Shard& drawn = batch.shards[shard];
      for (size_t i = 0; i < drawn.pairs.size(); ++i)
        lines += line_of(step, static_cast<int64_t>(shard), stage, drawn.pairs[i], tokens_of(drawn, i));
    }
    write_output(lines);
  }

 private:
  const data::CorpusPart& part_of(int64_t pair) const {
    for (const data::CorpusPart& part : corpus_.parts()) {
      if (pair < part.first + part.pairs) return part;
    }
    return corpus_.parts().back();
  }

  data::PairTokens tokens_of(const data::Shard& shard, size_t i) const {
    if (!shard.sampled.empty()) return shard.sampled[i];
    const data::TokenView source = corpus_.train().source[shard.pairs[i].pair];
    const data::TokenView target = corpus_.train().target[shard.pairs[i].pair];
    return {.source = {source.begin(), source.end()}, .target = {target.begin(), target.end()}};
  }

  std::string line_of(int64_t step, int64_t shard, const std::string& stage, const data::DrawnPair& drawn,
                      const data::PairTokens& tokens) const {
    const data::CorpusPart& part = part_of(drawn.pair);
    const auto& [source, target] = tokens;
    const int64_t pair = drawn.pair - part.first + 1;
    if (!options_.json) {
      std::string line = fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", step, shard, stage, part.name, pair,
                                     drawn.epoch, source.size(), target.size());
      if (options_.text)
        line += fmt::format("\t{}\t{}", corpus_.tokenizers().source().decode(source),
                            corpus_.tokenizers().target().decode(target));
      return line + "\n";
    }
    nlohmann::ordered_json object = {{"step", step},
                                     {"shard", shard},
                                     {"corpus", part.name},
                                     {"pair", pair},
                                     {"epoch", drawn.epoch},
                                     {"source_tokens", source.size()},
                                     {"target_tokens", target.size()}};
    if (!stage.empty()) object["stage"] = stage;
    if (options_.text)
      object.update({{"source", corpus_.tokenizers().source().decode(source)},
                     {"target", corpus_.tokenizers().target().decode(target)}});
    return json_text(object) + "\n";
  }

  const OrderCommandOptions& options_;
  const data::Corpus& corpus_;
  std::string heading_;  // until it is written
};

/// Whether the steps that are passed over are so numerous that reading the lengths of all pairs in their
/// order is faster than reading those of each step, and they fit in a quarter of the memory.
bool passes_over_many(const data::SentencePairs& pairs, const TrainOptions& train, int64_t steps) {
  constexpr double kEnough = 1.0 / 32.0;  // of all pairs: about as many as have a page to themselves
  if (pairs.size() > memory_of_this_host() / 4 / data::PairLengths::kBytesOfAPair) return false;
  const auto rows =
      static_cast<double>(std::min(pairs.source.total_tokens(), pairs.target.total_tokens()) + pairs.size());
  return static_cast<double>(steps) * static_cast<double>(train.batch_source_tokens) > kEnough * rows;
}

/// Refuses a step of a stage whose end is not known yet.
void check_is_known(const data::MixPlan& plan, const RecordedStages& recorded, int64_t stage, int64_t step,
                    const std::string& run) {
  if (plan.empty() || step <= recorded.last_step || stage < std::ssize(recorded.mix.ended)) return;
  const data::MixStage& present = plan.stages[static_cast<size_t>(stage)];
  if (present.end.kind != data::StageEnd::Kind::kStalled) return;
  if (run.empty()) {
    fail(ExitCode::kUsage,
         "step {} is in stage {}, which lasts {}: where that was is recorded by a run; give it with "
         "--model-dir",
         step, present.name, data::to_text(present.end));
  }
  fail(ExitCode::kUsage, "step {} is not decided: {} records {} steps, and is in stage {}, which lasts {}",
       step, run, recorded.last_step, present.name, data::to_text(present.end));
}

int run_order(OrderCommandOptions& options, Job& job) {
  TrainOptions& train = options.train.train;
  if (options.steps.empty()) fail(ExitCode::kUsage, "--steps is required: A:B, the first and the last step");
  const StepRange range = range_of(options.steps);
  if (!options.run.empty()) take_run(options);
  for (const std::string& remark : take_mix(options.train)) say(job, remark);
  if (train.corpus.empty())
    fail(ExitCode::kUsage, "--corpus is required, or --model-dir with the folder of a run");
  const data::Corpus corpus(train.corpus);
  const data::MixPlan plan = resolved_mix(train, {}, corpus);
  RecordedStages recorded{.mix = {.plan = data::to_text(plan), .ended = {}}};
  RecordedPosition at;
  if (!options.run.empty()) {
    recorded = recorded_stages(options.run, data::to_text(plan));
    at = recorded_position(options.run, range.first - 1);
    if (!recorded.corpus_digest.empty() && recorded.corpus_digest != corpus.digest()) {
      fail(
          ExitCode::kBadConfiguration,
          "{} has digest {}, but the run in {} was trained on a corpus of digest {}: give that one by --corpus",
          train.corpus, corpus.digest(), options.run, recorded.corpus_digest);
    }
  }
  const int shards = resolved_shards(train, {}, 1, Device::kCpu, longest_rows(corpus));
  if (train.logical_shards == 0) {
    say(job,
        fmt::format("The batches are those of a run with --logical-shards {}, the number of one rank on a "
                    "CPU; a run with another number has other batches",
                    shards));
  }
  std::optional<data::PairLengths> lengths;
  if (train.sample_source == 0.0 && train.sample_target == 0.0 &&
      passes_over_many(corpus.train(), train, range.first - 1 - at.step))
    lengths.emplace(
        data::PairLengths::of_all(corpus.train(), static_cast<int>(std::thread::hardware_concurrency())));
  const data::BatchSource batches(lengths ? lengths->pairs() : corpus.train(), corpus.parts(),
                                  {.source_tokens = train.batch_source_tokens,
                                   .target_tokens = train.batch_target_tokens,
                                   .shards = shards,
                                   .warmup_steps = train.batch_warmup,
                                   .seed = train.seed,
                                   .mix = plan.empty() ? plan : plan_as_it_was(recorded.mix),
                                   .sampled = sampled_text(train, corpus)});
  OrderWriter writer(options, corpus);
  while (at.step < range.last) {
    if (batches.ended(at.position)) {
      say(job, fmt::format("The plan has {} steps", grouped(at.step)));
      break;
    }
    ++at.step;
    const int64_t stage = at.position.mix.stage;
    check_is_known(plan, recorded, stage, at.step, options.run);
    const data::GlobalBatch batch = batches.at(at.position, at.step);
    at.position = batch.next;
    if (at.step < range.first) continue;
    writer.write(at.step, plan.empty() ? "" : plan.stages[static_cast<size_t>(stage)].name, batch);
  }
  return 0;
}

}  // namespace

Command order_command() {
  const auto options = std::make_shared<OrderCommandOptions>();
  Command command;
  command.name = "order";
  command.summary = "prints the sentence pairs of training steps";
  command.synopsis = "--corpus FILE --steps A:B [--mix FILE] [options], or --model-dir DIR --steps A:B";
  command.description = {
      "Prints a line for each sentence pair of the steps, in the order of the batches: the step, the logical "
      "shard from 0, the stage of the plan, the corpus, the number of the pair among those of its corpus in "
      "the file from 1 (those that 'ventris prepare' kept, in their order), how often all of that corpus was "
      "drawn before, and the tokens of both sides without marks. The order follows from the corpus and the "
      "options alone: no model is needed, and it is the same for any number of ranks with the same "
      "--logical-shards.",
      "With --model-dir the options are those of a run, steps are counted from its nearest checkpoint, and "
      "stages end where they ended in the run. Stages that validations end are known for such a run only. "
      "Without it, steps are counted from the first."};
  command.examples = {{"order --model-dir model --steps 12000:12001 --text", "What two steps of a run saw:"},
                      {"order --corpus corpus.h5 --mix plan.txt --steps 1:100 --logical-shards 8 --json",
                       "What a run with a plan would see:"}};
  OptionTable& table = command.options;
  table.group("Steps");
  table.text("steps", "A:B", options->steps, "The first and the last step, from 1, or one step. Required.");
  table
      .optional_text("model-dir", "DIR", options->run,
                     "A run: seed, batches and plan are those of its config.json, and the corpus too "
                     "unless --corpus says where it is now.")
      .excludes = {"preset"};
  table.toggle("text", options->text, "Also prints both sentences, decoded.");
  table.toggle("json", options->json, "Prints one JSON object a line.");
  table.group("Preset");
  table.choice("preset", options->train.train.preset, preset_names(), "As in train.");
  add_batch_options(options->train, table);
  command.before_store = [options](const std::string& preset) { take_preset(options->train, preset); };
  command.run = [options](Job& job) { return run_order(*options, job); };
  return command;
}

}  // namespace ventris
