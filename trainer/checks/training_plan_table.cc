// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan_table.h"

#include <fmt/core.h>

#include <cmath>

#include "trainer/text.h"

namespace ventris {
namespace {

void add_line(std::string& text, const std::string& what, const std::string& value) {
  text += fmt::format("{:<32}{:>12}", what, value);
}

/// The kinds of memory on one device or host, and their sum.
void add_memory(std::string& text, const TrainingPlan& plan, bool on_device, const std::string& heading,
                int64_t sum) {
  text += heading + "\n";
  for (const PlannedMemory& part : plan.memory) {
    if ((part.on_device && plan.machine.device == Device::kCuda) != on_device) continue;
    add_line(text, "  " + part.name, bytes_text(part.bytes));
    text += fmt::format("{}{}\n", part.exact ? "" : "  about", part.once ? "  rank 0 only" : "");
  }
  add_line(text, "  together", bytes_text(sum));
}

/// The predicted step, if there is one.
void add_prediction(std::string& text, const TrainingPlan& plan) {
  if (!plan.predicted) return;
  const PredictedStep& step = *plan.predicted;
  const auto milliseconds = [](double seconds) { return fmt::format("{:.4g} ms", 1e3 * seconds); };
  add_line(text, "predicted step", milliseconds(step.step()));
  text += fmt::format("  {:.3g} times as fast as one rank, {:.0f} % of {}\n", step.speedup,
                      100.0 * step.speedup / plan.machine.ranks, counted(plan.machine.ranks, "rank"));
  add_line(text, "  forward and backward", milliseconds(step.compute));
  text += "\n";
  add_line(text, "  the same on every rank", milliseconds(step.fixed));
  text += "\n";
  add_line(text, "  sums over the ranks", milliseconds(step.exposed));
  text += fmt::format("  of {}; the rest overlaps with backward\n", milliseconds(step.sums));
  if (step.sharing > 0.0) {
    add_line(text, "  norm and parameters of owners", milliseconds(step.sharing));
    text += "\n";
  }
  text += "\n";
}

std::string vocabulary_text(const TransformerConfig& model) {
  const std::string of_targets = thousands(model.vocab_size);
  if (model.source_vocab_size == 0) return "vocabulary " + of_targets;
  return fmt::format("vocabularies {} of sources and {} of targets", thousands(model.source_vocab_size),
                     of_targets);
}

std::string of_known(int64_t known) {
  return known > 0 ? fmt::format("  of {}\n", bytes_text(known)) : "\n";
}

}  // namespace

std::string plan_table(const TrainingPlan& plan) {
  const PlannedMachine& machine = plan.machine;
  std::string text;
  add_line(text, "parameters", thousands(plan.parameters));
  text += fmt::format("  {} + {} layers, width {}, {}{}\n", plan.model.encoder_layers,
                      plan.model.decoder_layers, plan.model.d_model, vocabulary_text(plan.model),
                      plan.model.tie == Tie::kAll ? "" : fmt::format(", --tie {}", name_of(plan.model.tie)));
  if (plan.frozen_parameters > 0) {
    add_line(text, "  frozen", thousands(plan.frozen_parameters));
    text += "\n";
  }
  add_line(text, "ranks", std::to_string(machine.ranks));
  text += fmt::format("  {} per host, {}, {}\n", machine.ranks_per_host, name_of(machine.device),
                      name_of(plan.precision));
  add_line(text, "micro-batches of a step", std::to_string(plan.shards));
  text += fmt::format("  {} per rank, of {} source and {} target rows\n", plan.shards_of_a_rank,
                      thousands(plan.micro_batch.source_rows), thousands(plan.micro_batch.target_rows));
  if (plan.recomputed > 0.0) {
    add_line(text, "  computed again", fmt::format("{:.0f} %", 100.0 * plan.recomputed));
    text += "  of the operations of a step, for --recompute\n";
  }
  add_line(text, "target tokens of a step", thousands(std::llround(plan.target_tokens_per_step)));
  text += fmt::format("  on average, and {} source tokens\n",
                      thousands(std::llround(plan.source_tokens_per_step)));
  add_line(text, "steps of an epoch",
           (plan.steps_are_exact ? "" : "about ") + thousands(plan.steps_per_epoch));
  text += fmt::format("  {} sentence pairs\n", thousands(plan.pairs));
  add_line(text, "steps", thousands(plan.steps));
  text += fmt::format("  {:.4g} epochs\n", plan.epochs);
  if (!plan.schedule.empty()) text += fmt::format("learning rate  {}\n", plan.schedule);
  for (const PlannedStage& stage : plan.stages) {
    add_line(text, "  stage " + stage.name, stage.steps > 0 ? thousands(stage.steps) : "");
    text += fmt::format("{}  {}\n", stage.estimated ? "  about" : "",
                        stage.end.empty() ? "to the end of training" : stage.end);
  }
  text += "\n";

  add_prediction(text, plan);
  if (machine.device == Device::kCuda) {
    add_memory(text, plan, true, "memory of a rank's CUDA device", plan.device_bytes());
    text += of_known(machine.device_memory);
  }
  add_memory(text, plan, false, "memory of a rank on its host", plan.host_bytes());
  text += "\n";
  add_line(text, "memory of a host", bytes_text(plan.bytes_of_a_host()));
  text += of_known(machine.host_memory);
  add_line(text, "corpus, mapped in addition", bytes_text(plan.corpus_bytes));
  text += "  one copy per host, which the system may drop\n\n";

  add_line(text, "a checkpoint", bytes_text(plan.checkpoint_bytes));
  text += "\n";
  add_line(text, "disk", bytes_text(plan.disk_bytes()));
  text += fmt::format("  for {} checkpoints", plan.checkpoints) +
          (machine.free_disk > 0 ? fmt::format("; {} are free", bytes_text(machine.free_disk)) : "") + "\n";
  return text;
}

}  // namespace ventris
