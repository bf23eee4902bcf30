// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/device.h"
#include "backend/error.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/mix_option.h"
#include "launch/output.h"
#include "launch/train_option_table.h"
#include "launch/train_option_table_json.h"
#include "trainer/checks/training_plan.h"
#include "trainer/checks/training_plan_table.h"
#include "trainer/files/json_text.h"
#include "trainer/host_memory.h"

namespace ventris {

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

struct PlanCommandOptions {
  TrainCommandOptions train;
  int ranks = 1;
  int ranks_per_host = 0;
  double device_memory = 0.0;  // GiB; 0: of the device of this machine
  double host_memory = 0.0;    // GiB; 0: of this machine
  double link = 0.0;           // GB/s; 0: unknown
  double latency = 0.0;        // microseconds
  double host_link = 0.0;      // GB/s; 0: as link
  double host_latency = 0.0;   // microseconds, with host_link
  double step = 0.0;           // milliseconds; 0: unknown
  double fixed = 0.0;          // milliseconds
};

// The common options of train on which a plan does not depend.
bool changes_nothing(const std::string& option) {
  return option == "valid-metric" || option == "patience" || option == "log-every";
}

int64_t bytes_of_gibibytes(double gibibytes) {
  return static_cast<int64_t>(gibibytes * kGiB);
}

/// Refuses a --model-dir that is not a folder, as train does.
void check_model_dir(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder, error) && !std::filesystem::is_directory(folder, error))
    fail(ExitCode::kCannotCreate, "--model-dir {}: a file has this name; give a folder", folder);
}

/// Free bytes at the location of the folder; 0 if unknown.
int64_t free_disk_of(const std::string& folder) {
  if (folder.empty()) return 0;
  std::error_code error;
  std::filesystem::path there = std::filesystem::absolute(folder, error);
  while (!there.empty() && there != there.root_path() && !std::filesystem::exists(there, error))
    there = there.parent_path();
  const std::filesystem::space_info space = std::filesystem::space(there, error);
  return error ? 0 : static_cast<int64_t>(space.available);
}

PlannedMachine machine_of(const PlanCommandOptions& options) {
  const std::string& wanted = options.train.train.device;
  const std::string reason = cuda_unavailable_reason(0);
  PlannedMachine machine{.ranks = options.ranks, .ranks_per_host = options.ranks_per_host};
  if (wanted == "cuda" || (wanted == "auto" && (reason.empty() || options.device_memory > 0.0)))
    machine.device = Device::kCuda;
  if (machine.device == Device::kCuda) {
    if (options.device_memory == 0.0 && !reason.empty()) {
      fail(ExitCode::kUsage,
           "--device cuda: this machine has no usable device ({}); "
           "give the memory of the run's devices with --device-memory",
           reason);
    }
    machine.device_memory =
        options.device_memory > 0.0 ? bytes_of_gibibytes(options.device_memory) : cuda_device_memory(0);
  }
  machine.host_memory =
      options.host_memory > 0.0 ? bytes_of_gibibytes(options.host_memory) : memory_of_this_host();
  machine.free_disk = free_disk_of(options.train.train.model_dir);
  return machine;
}

/// The link of the prediction, if one is asked for.
std::optional<PlannedLink> link_of(const PlanCommandOptions& options, Device device) {
  if (options.link == 0.0 && options.latency == 0.0 && options.step == 0.0 && options.fixed == 0.0 &&
      options.host_link == 0.0 && options.host_latency == 0.0) {
    return {};
  }
  if (options.step == 0.0) {
    fail(
        ExitCode::kUsage,
        "--step-ms is required to predict a step: the milliseconds of one on one rank, with the same options; "
        "'ventris train --profile' measures it");
  }
  if (options.link == 0.0) {
    fail(ExitCode::kUsage, "--link is required to predict a step: the GB/s between the ranks");
  }
  if (options.fixed > options.step) {
    fail(ExitCode::kUsage, "--fixed-ms {:g} is more than --step-ms {:g}, of which it is a part",
         options.fixed, options.step);
  }
  if (options.host_latency > 0.0 && options.host_link == 0.0)
    fail(ExitCode::kUsage, "--host-latency needs --host-link, the GB/s between ranks of one host");
  const bool several_on_several = options.ranks_per_host > 1 && options.ranks > options.ranks_per_host;
  if (device == Device::kCuda && several_on_several && options.host_link == 0.0) {
    fail(
        ExitCode::kUsage,
        "--host-link is required to predict a step on several hosts with several GPUs each: the GB/s between "
        "GPUs of one host, about 370 with the NVLink of an H100");
  }
  const bool own_host_link = options.host_link > 0.0;
  return PlannedLink{.bytes_per_second = 1e9 * options.link,
                     .latency = 1e-6 * options.latency,
                     .host_bytes_per_second = 1e9 * (own_host_link ? options.host_link : options.link),
                     .host_latency = 1e-6 * (own_host_link ? options.host_latency : options.latency),
                     .step_seconds = 1e-3 * options.step,
                     .fixed_seconds = 1e-3 * options.fixed};
}

nlohmann::json step_json(const PredictedStep& step, int ranks) {
  return {{"step_ms", 1e3 * step.step()},     {"compute_ms", 1e3 * step.compute},
          {"fixed_ms", 1e3 * step.fixed},     {"sums_ms", 1e3 * step.sums},
          {"exposed_ms", 1e3 * step.exposed}, {"sharing_ms", 1e3 * step.sharing},
          {"speedup", step.speedup},          {"efficiency", step.speedup / ranks}};
}

nlohmann::json step_json(const TrainingPlan& plan) {
  nlohmann::json memory = nlohmann::json::array();
  for (const PlannedMemory& part : plan.memory) {
    const bool on_device = part.on_device && plan.machine.device == Device::kCuda;
    memory.push_back({{"kind", part.name},
                      {"bytes", part.bytes},
                      {"place", on_device ? "device" : "host"},
                      {"exact", part.exact}});
  }
  nlohmann::json object = {{"fits", plan.excess.empty()},
                           {"parameters", plan.parameters},
                           {"frozen_parameters", plan.frozen_parameters},
                           {"device", name_of(plan.machine.device)},
                           {"precision", name_of(plan.precision)},
                           {"ranks", plan.machine.ranks},
                           {"ranks_per_host", plan.machine.ranks_per_host},
                           {"micro_batches", plan.shards},
                           {"micro_batches_of_a_rank", plan.shards_of_a_rank},
                           {"micro_batch_source_rows", plan.micro_batch.source_rows},
                           {"micro_batch_target_rows", plan.micro_batch.target_rows},
                           {"recomputed", plan.recomputed},
                           {"pairs", plan.pairs},
                           {"steps_per_epoch", plan.steps_per_epoch},
                           {"steps_are_exact", plan.steps_are_exact},
                           {"source_tokens_per_step", plan.source_tokens_per_step},
                           {"target_tokens_per_step", plan.target_tokens_per_step},
                           {"steps", plan.steps},
                           {"epochs", plan.epochs},
                           {"memory", memory},
                           {"device_bytes_of_a_rank", plan.device_bytes()},
                           {"host_bytes_of_a_rank", plan.host_bytes()},
                           {"bytes_of_a_host", plan.bytes_of_a_host()},
                           {"corpus_bytes", plan.corpus_bytes},
                           {"checkpoint_bytes", plan.checkpoint_bytes},
                           {"checkpoints", plan.checkpoints},
                           {"disk_bytes", plan.disk_bytes()}};
  for (const PlannedStage& stage : plan.stages) {
    object["stages"].push_back({{"stage", stage.name}, {"end", stage.end}});
    if (stage.steps > 0) object["stages"].back()["steps"] = stage.steps;
  }
  if (plan.predicted) object["predicted"] = step_json(*plan.predicted, plan.machine.ranks);
  return object;
}

int run_plan(PlanCommandOptions& options) {
  TrainOptions& train = options.train.train;
  if (train.corpus.empty()) fail(ExitCode::kUsage, "--corpus is required; 'ventris prepare' makes one");
  if (options.ranks_per_host > options.ranks) {
    fail(ExitCode::kUsage, "--ranks-per-host {} is more than --ranks {}", options.ranks_per_host,
         options.ranks);
  }
  check_model_dir(train.model_dir);
  take_mix(options.train);
  PlannedMachine machine = machine_of(options);
  machine.link = link_of(options, machine.device);
  if (train.model_dir.empty()) train.model_dir = ".";  // train would refuse it; plan writes nothing
  const TrainingPlan plan = plan_training(train, machine);
  write_output(options.train.json ? json_text(step_json(plan)) + "\n" : plan_table(plan));
  if (!plan.excess.empty()) fail(ExitCode::kBadConfiguration, "{}", plan.excess);
  return 0;
}

}  // namespace

Command plan_command() {
  const auto options = std::make_shared<PlanCommandOptions>();
  Command command;
  command.name = "plan";
  command.summary = "computes what a training run needs, and refuses one that cannot fit";
  command.synopsis = "--corpus FILE [--preset tiny|small|base|big] [--ranks N] [options of train]";
  command.description = {
      "Prints what 'ventris train' with the same options will need: parameters, memory by kind "
      "for one rank, steps per epoch, the size of a checkpoint and the disk space of the run folder. "
      "Nothing is trained or written. The memory of tensors is computed by the code that allocates them; "
      "lines marked 'about' are estimates. Steps are counted from the batches of the corpus. "
      "--init and --init-embeddings are read, as in train; checkpoints of the run folder and --resume are ignored.",
      "If the run does not fit into the memory of the device or the host, "
      "or on the disk of --model-dir, the exit code is 78 and the message says what to change. "
      "The memory is that of this machine unless it is given."};
  command.description.push_back(
      "With --link and --step-ms, the time of a step is predicted, and what of the sums over the ranks does not "
      "overlap with backward: from the buckets in which gradients are summed and the formulas in "
      "docs/scaling.md, assuming that a micro-batch takes as long as on one rank.");
  command.examples = {
      {"plan --corpus corpus.h5 --preset base --ranks 2 --model-dir model", "Two ranks on this machine:"},
      {"plan --corpus corpus.h5 --preset big --ranks 16 --ranks-per-host 8 --device cuda --device-memory 80",
       "Two hosts with eight GPUs of 80 GiB each:"},
      {"plan --corpus corpus.h5 --preset base --ranks 64 --ranks-per-host 8 --device cuda --device-memory 80 "
       "--link 50 --latency 14 --host-link 370 --host-latency 4 --step-ms 1724.3 --fixed-ms 0.75 "
       "--batch-source-tokens 1600000 --batch-target-tokens 1600000",
       "The step of 64 GPUs, from that of one GPU that computes the batch of all:"}};
  command.common = {{"ranks", "ranks of the run"}, {"ranks-per-host", "that share its memory; 0: all"}};
  for (const CommonOption& option : common_train_options()) {
    if (!changes_nothing(option.name)) command.common.push_back(option);
  }
  command.exit_codes = {{78, "the run cannot fit; the message says what to change"}};
  OptionTable& table = command.options;
  table.group("Machines");
  table.integer("ranks", options->ranks, {.min = 1, .max = 65536}, "Ranks of the run.");
  table.integer("ranks-per-host", options->ranks_per_host, {.min = 0, .max = 65536},
                "Ranks on a host, which share its memory; 0: all.");
  table.number("device-memory", options->device_memory, {.min = 0, .max = 1e6},
               "GiB of memory of a CUDA device; 0: that of this machine's device.");
  table.number("host-memory", options->host_memory, {.min = 0, .max = 1e6},
               "GiB of memory of a host; 0: that of this machine.");
  table.group("Prediction");
  table.number(
      "link", options->link, {.min = 0, .max = 1e6},
      "GB/s that a rank sends to other hosts, and receives at the same time; required for a prediction. What a "
      "host sends, divided by its ranks: 50 with a network adapter of 400 Gb/s for each GPU. On one host, as "
      "--host-link.");
  table.number("latency", options->latency, {.min = 0, .max = 1e9}, "Microseconds of a short message.");
  table.number(
      "host-link", options->host_link, {.min = 0, .max = 1e6},
      "GB/s that a rank sends to a rank of its host; required for several hosts with several GPUs each. "
      "0: --link and --latency.");
  table.number("host-latency", options->host_latency, {.min = 0, .max = 1e9},
               "Microseconds of a short message between ranks of one host, with --host-link.");
  table.number("step-ms", options->step, {.min = 0, .max = 1e9},
               "Milliseconds of a step of one rank that computes all micro-batches, measured with train.");
  table.number(
      "fixed-ms", options->fixed, {.min = 0, .max = 1e9},
      "Milliseconds of these that every rank repeats whatever its share: gradient norm, Adam and zeroing "
      "in the table of --profile, and launches on CUDA.");
  add_train_options(options->train, table);
  command.before_store = [options](const std::string& preset) { take_preset(options->train, preset); };
  command.options_from_json = train_options_of;
  command.run = [options](Job&) { return run_plan(*options); };
  return command;
}

}  // namespace ventris
