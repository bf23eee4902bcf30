// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "backend/error.h"
#include "backend/instruction_set.h"
#include "comm/communicator.h"
#include "data/files/file_io.h"
#include "data/files/json_text.h"
#include "launch/command.h"
#include "launch/corpus_faults.h"
#include "launch/isa_option.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/checks/replay.h"
#include "trainer/files/run_folder.h"

namespace ventris {

namespace {

struct ReplayCommandOptions {
  std::string checkpoint;
  int64_t steps = 0;
  std::string corpus;
  std::string device = "run";
  int threads = 0;
  std::string isa = "auto";
  bool json = false;
};

std::string replayed_line(const ReplayedStep& step) {
  std::vector<std::string> comparisons;
  for (const RecordedDigest& recorded : step.recorded) {
    comparisons.push_back(recorded.digest == step.digest ? "equal to " + recorded.origin
                                                         : fmt::format("differs from {}, which has {}",
                                                                       recorded.origin, recorded.digest));
  }
  return fmt::format("step {}  {}  {}\n", step.step, step.digest, fmt::join(comparisons, ", "));
}

nlohmann::json replayed_json(const ReplayedStep& step) {
  nlohmann::json recorded = nlohmann::json::array();
  for (const RecordedDigest& one : step.recorded) {
    recorded.push_back({{"origin", one.origin}, {"digest", one.digest}});
  }
  return {{"step", step.step}, {"digest", step.digest}, {"recorded", recorded}, {"agrees", step.agrees()}};
}

/// By default the instruction set of the run, if the processor of every rank has it: bf16 products have other
/// bits with others.
std::string instructions_for(const ReplayCommandOptions& options, const Job& job,
                             const std::string& recorded) {
  if (options.isa != "auto") return options.isa;
  const std::vector<std::string> usable = usable_instruction_sets();
  const bool can =
      !variable_names_instruction_set() && std::find(usable.begin(), usable.end(), recorded) != usable.end();
  const std::vector<std::string> of_ranks = job.communicator.all_gather(can ? "can" : "");
  return std::count(of_ranks.begin(), of_ranks.end(), "can") == std::ssize(of_ranks) ? recorded : options.isa;
}

/// Refuses a run folder: which of its checkpoints is meant?
void check_is_file(const std::string& checkpoint) {
  std::error_code error;  // of a missing file
  if (!std::filesystem::is_directory(checkpoint, error)) return;
  const std::vector<std::string> checkpoints = list_checkpoints(checkpoint);
  fail(ExitCode::kMissingInput, "--checkpoint {}: is a folder; expected a checkpoint in a run folder{}",
       checkpoint,
       checkpoints.empty() ? ", and it holds none" : ", such as its newest: " + checkpoints.back());
}

int run_replay(const ReplayCommandOptions& options, Job& job) {
  if (options.checkpoint.empty())
    fail(ExitCode::kUsage, "--checkpoint is required: a checkpoint in its run folder");
  check_is_file(options.checkpoint);
  const RecordedRun recorded = recorded_run(job.communicator, options.checkpoint);
  TrainOptions run = recorded.options;
  if (!options.corpus.empty()) run.corpus = options.corpus;
  if (!data::is_there(run.corpus)) {
    fail(ExitCode::kMissingInput, "there is no corpus {}; if it was moved, give its new path with --corpus",
         run.corpus);
  }
  if (options.device != "run") run.device = options.device;
  run.threads = options.threads;
  job.communicator.limit_waits(run.comm_timeout);
  const std::unique_ptr<Context> context =
      make_context(job, run.device, run.threads, instructions_for(options, job, recorded.kernels));
  nlohmann::json steps = nlohmann::json::array();
  size_t compared = 0;
  size_t differing = 0;
  int64_t first_difference = 0;
  const auto tell_step = [&](const ReplayedStep& step) {
    ++compared;
    if (!step.agrees() && differing++ == 0) first_difference = step.step;
    if (job.speaks() && options.json) steps.push_back(replayed_json(step));
    if (job.speaks() && !options.json) write_output(replayed_line(step));
  };
  const CorpusFaults faults(run.corpus, job, "replay");
  faults.run([&] {
    replay(*context, job.communicator, run, options.checkpoint, options.steps, job.command_line, tell_step);
  });
  if (job.speaks() && options.json) {
    const nlohmann::json result = {
        {"checkpoint", options.checkpoint}, {"agrees", differing == 0}, {"steps", steps}};
    write_output(data::utf8_json_text(result) + "\n");
  }
  if (differing == 0) {
    say(job, fmt::format("All {} compared steps have the recorded digests", grouped(compared)));
    return 0;
  }
  say(job,
      fmt::format(
          "{} of {} compared steps have digests other than the recorded ones, first in step {}. "
          "The same bits require the program, the kind of device, the number of ranks and the options "
          "of the run; if these are the same, the memory or the arithmetic of a machine was or is faulty",
          grouped(differing), grouped(compared), first_difference));
  return static_cast<int>(ExitCode::kRanksDisagree);
}

}  // namespace

Command replay_command() {
  const auto options = std::make_shared<ReplayCommandOptions>();
  Command command;
  command.name = "replay";
  command.summary = "repeats steps of a training run and compares the digests";
  command.synopsis = "--checkpoint FILE [--steps K] [--corpus FILE] [options]";
  command.description = {
      "Continues from a checkpoint in a run folder with the options and the instruction set of the run "
      "(config.json), and compares the digest of the parameters with every one that the run recorded: "
      "in metrics.jsonl ('train --digest-every') and in later checkpoints. Nothing is written to the run "
      "folder. It prints a line for each compared step and ends with exit code 76 if one differs.",
      "Start it on the same number of ranks as the run. Options that changed between two starts "
      "of the run, such as the learning rate, have the values of the newest start."};
  command.examples = {{"replay --checkpoint model/checkpoint-00012000.h5 --steps 100", "The next 100 steps:"},
                      {"mpirun -np 4 ventris replay --checkpoint model/checkpoint-00012000.h5",
                       "All recorded steps of a run of four ranks:"}};
  command.exit_codes = {{66, "there is no recorded digest to compare with"},
                        {76, "a digest differs from the recorded one"}};
  command.many_ranks = true;
  command.alike_on_ranks = true;
  OptionTable& table = command.options;
  table.group("Input and output");
  table.text("checkpoint", "FILE", options->checkpoint, "The checkpoint, in its run folder. Required.");
  table.text("corpus", "FILE", options->corpus, "The corpus, if it was moved. Default: that of the run.");
  table.integer("steps", options->steps, {.min = 0, .max = int64_t{1} << 40},
                "Steps to compute; 0: up to the last recorded digest.");
  table.toggle("json", options->json, "Prints one JSON object at the end.");
  table.group("Machine");
  table.choice("device", options->device, {"run", "auto", "cpu", "cuda"},
               "Device to compute on, as for 'train'; run: that of the run.");
  table.integer("threads", options->threads, {.min = 0, .max = 1024},
                "CPU threads per rank; 0: its share of the available cores. The result is the same bits.");
  add_isa_option(options->isa, table);
  command.run = [options](Job& job) { return run_replay(*options, job); };
  return command;
}

}  // namespace ventris
