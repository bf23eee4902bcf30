// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "backend/device/device.h"
#include "backend/device/error.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/train_command_options.h"
#include "launch/output.h"
#include "trainer/checks/host_memory.h"
#include "trainer/checks/training_plan.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {

namespace {

struct PlanCommandOptions {
  TrainCommandOptions train;
  int ranks = 1;
  int ranks_per_host = 0;
  double device_memory = 0.0;  // GiB; 0: of the device of this machine
  double host_memory = 0.0;    // GiB; 0: of this machine
  double link = 0.0;           // GB/s; 0: unknown
  double latency = 0.0;        // microseconds
  double step = 0.0;           // milliseconds; 0: unknown
  double fixed = 0.0;          // milliseconds
};

PlannedMachine machine_of(const PlanCommandOptions& options) {
  const std::string& wanted = options.train.train.device;
  const std::string reason = cuda_unavailable_reason(0);
  const auto gibibytes = [](double count) { return static_cast<int64_t>(count * 1024.0 * 1024.0 * 1024.0); };
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
        options.device_memory > 0.0 ? gibibytes(options.device_memory) : cuda_device_memory(0);
  }
  machine.host_memory = options.host_memory > 0.0 ? gibibytes(options.host_memory) : memory_of_this_host();
  if (options.link > 0.0 || options.latency > 0.0 || options.step > 0.0 || options.fixed > 0.0) {
    if (options.step == 0.0 || options.link == 0.0) {
      fail(
          ExitCode::kUsage,
          "a prediction needs both --step-ms, the milliseconds of a step on one rank ('ventris train --profile' "
          "measures them), and --link, the bandwidth of sums over the ranks in GB/s ('ventris doctor' measures it)");
    }
    if (options.fixed > options.step) {
      fail(ExitCode::kUsage, "--fixed-ms {:g} is more than --step-ms {:g}, of which it is a part",
           options.fixed, options.step);
    }
  }
  machine.step = 1e-3 * options.step;
  machine.fixed = 1e-3 * options.fixed;
  machine.sum_latency = 1e-6 * options.latency;
  machine.sum_bandwidth = 1e9 * options.link;
  return machine;
}

double hours_of(const TrainingPlan& plan) {
  return plan.predicted->step() * static_cast<double>(plan.steps) / 3600.0;
}

std::string plan_table(const TrainingPlan& plan) {
  const PlannedMachine& machine = plan.machine;
  const TransformerConfig& model = plan.model;
  std::string text;
  const auto row = [&](const std::string& name, const std::string& value, const std::string& note = "") {
    text += fmt::format("{:<32}{:>12}{}{}\n", name, value, note.empty() ? "" : "  ", note);
  };
  const auto memory = [&](bool on_device, int64_t sum) {
    for (const PlannedMemory& part : plan.memory) {
      if (part.on_device != on_device) continue;
      row("  " + part.name, bytes_text(part.bytes), !part.exact ? "about" : part.once ? "rank 0 only" : "");
    }
    return bytes_text(sum);
  };
  const auto of = [](int64_t known) { return known > 0 ? "of " + bytes_text(known) : ""; };
  const std::string sources =
      model.source_vocab_size > 0 ? thousands(model.source_vocab_size) + " of sources and " : "";
  row("parameters", thousands(plan.parameters),
      fmt::format("{} + {} layers, width {}, vocabulary {}{}", model.encoder_layers, model.decoder_layers,
                  model.d_model, sources, thousands(model.vocab_size)));
  row("ranks", std::to_string(machine.ranks),
      fmt::format("{} per host, {}, {}", machine.ranks_per_host, name_of(machine.device),
                  name_of(plan.precision)));
  row("micro-batches of a step", std::to_string(plan.shards),
      fmt::format("{} per rank, of {} source and {} target rows", plan.shards_of_a_rank,
                  thousands(plan.micro_batch.source_rows), thousands(plan.micro_batch.target_rows)));
  row("target tokens of a step", thousands(std::llround(plan.target_tokens_per_step)),
      fmt::format("on average, and {} source tokens", thousands(std::llround(plan.source_tokens_per_step))));
  row("steps of an epoch", (plan.steps_are_exact ? "" : "about ") + thousands(plan.steps_per_epoch),
      thousands(plan.pairs) + " sentence pairs");
  row("steps", thousands(plan.steps),
      fmt::format("{}{:.4g} epochs", plan.steps_are_most ? "at most, " : "", plan.epochs));
  if (plan.predicted) {
    const PredictedStep& step = *plan.predicted;
    row("predicted step", fmt::format("{:.4g} ms", 1e3 * step.step()),
        fmt::format("{:.4g} ms of it exposed, of {:.4g} ms of exchange", 1e3 * step.exposed,
                    1e3 * step.exchange));
    row("predicted efficiency", fmt::format("{:.0f} %", 100.0 * step.efficiency),
        "of a rank, relative to one alone");
    row("predicted run", fmt::format("{:.1f} h", hours_of(plan)), "without validations");
  }
  if (machine.device == Device::kCuda) {
    text += "\nmemory of a rank's CUDA device\n";
    const std::string sum = memory(true, plan.device_bytes());
    row("  together", sum, of(machine.device_memory));
  }
  text += "\nmemory of a rank on its host\n";
  const std::string sum = memory(false, plan.host_bytes());
  row("  together", sum);
  row("memory of a host", bytes_text(plan.bytes_of_a_host()), of(machine.host_memory));
  row("\na checkpoint", " " + bytes_text(plan.checkpoint_bytes));
  row("disk", bytes_text(plan.disk_bytes()), fmt::format("for {} checkpoints", plan.checkpoints));
  return text;
}

nlohmann::json plan_json(const TrainingPlan& plan) {
  nlohmann::json memory = nlohmann::json::array();
  for (const PlannedMemory& part : plan.memory) {
    memory.push_back({{"kind", part.name},
                      {"bytes", part.bytes},
                      {"place", part.on_device ? "device" : "host"},
                      {"exact", part.exact}});
  }
  nlohmann::json object = {{"fits", plan.excess.empty()},
                           {"parameters", plan.parameters},
                           {"device", name_of(plan.machine.device)},
                           {"precision", name_of(plan.precision)},
                           {"micro_batches", plan.shards},
                           {"micro_batches_of_a_rank", plan.shards_of_a_rank},
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
                           {"checkpoint_bytes", plan.checkpoint_bytes},
                           {"checkpoints", plan.checkpoints},
                           {"disk_bytes", plan.disk_bytes()}};
  if (plan.predicted) {
    const PredictedStep& step = *plan.predicted;
    object["predicted"] = {{"step_ms", 1e3 * step.step()},       {"compute_ms", 1e3 * step.compute},
                           {"exchange_ms", 1e3 * step.exchange}, {"exposed_ms", 1e3 * step.exposed},
                           {"efficiency", step.efficiency},      {"hours", hours_of(plan)}};
  }
  return object;
}

int run_plan(PlanCommandOptions& options) {
  TrainOptions& train = options.train.train;
  if (train.corpus.empty()) fail(ExitCode::kUsage, "--corpus is required; 'ventris prepare' makes one");
  if (options.ranks_per_host > options.ranks) {
    fail(ExitCode::kUsage, "--ranks-per-host {} is more than --ranks {}", options.ranks_per_host,
         options.ranks);
  }
  take_mix(train);
  const PlannedMachine machine = machine_of(options);
  if (train.model_dir.empty()) train.model_dir = ".";  // train would refuse it; plan writes nothing
  const TrainingPlan plan = plan_training(train, machine);
  write_output(options.train.json ? json_text(plan_json(plan)) + "\n" : plan_table(plan));
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
      "--init is read, as in train; checkpoints of the run folder and --resume are ignored.",
      "If the run does not fit into the memory of the device or the host, "
      "the exit code is 78 and the message says what to change. "
      "The memory is that of this machine unless it is given."};
  command.description.push_back(
      "With --link and --step-ms, it also predicts the time of a step and of the run, and how much of the time "
      "of gradient sums the backward pass does not hide. The formulas are in docs/scaling.md.");
  command.examples = {
      {"plan --corpus corpus.h5 --preset base --ranks 2", "Two ranks on this machine:"},
      {"plan --corpus corpus.h5 --preset big --ranks 16 --ranks-per-host 8 --device cuda --device-memory 80",
       "Two hosts with eight GPUs of 80 GiB each:"},
      {"plan --corpus corpus.h5 --preset base --ranks 64 --ranks-per-host 8 --device cuda --device-memory 80 "
       "--link 370 --latency 140 --step-ms 1724.3 --fixed-ms 0.75 "
       "--batch-source-tokens 1600000 --batch-target-tokens 1600000",
       "The step of 64 GPUs, from that of one GPU that computes the batch of all:"}};
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
      "Bandwidth of gradient sums in GB/s, in and out of each rank, as doctor measures it (the bus bandwidth "
      "of nccl-tests); required for a prediction.");
  table.number("latency", options->latency, {.min = 0, .max = 1e9},
               "Microseconds that it takes to sum one number over the ranks, as doctor measures them.");
  table.number("step-ms", options->step, {.min = 0, .max = 1e9},
               "Milliseconds of a step of one rank that computes all micro-batches, measured with train.");
  table.number(
      "fixed-ms", options->fixed, {.min = 0, .max = 1e9},
      "Milliseconds of these that every rank repeats whatever its share: gradient norm, Adam and zeroing "
      "in the table of --profile, and launches on CUDA.");
  add_train_options(options->train, command);
  std::erase_if(command.common, [](const CommonOption& option) {  // a plan does not depend on them
    return option.name == "valid-metric" || option.name == "patience" || option.name == "log-every";
  });
  command.common.insert(command.common.begin(),
                        {{"ranks", "ranks of the run"}, {"ranks-per-host", "that share its memory; 0: all"}});
  command.run = [options](Job&) { return run_plan(*options); };
  return command;
}

}  // namespace ventris
