// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "backend/device/error.h"
#include "comm/shard_plan.h"
#include "comm/tree_sum.h"
#include "model/batch_stage.h"
#include "model/search/beam_search.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/frozen_parameters.h"
#include "trainer/initial_values.h"
#include "trainer/optimizer.h"
#include "trainer/run_shape.h"
#include "trainer/schedule_options.h"
#include "trainer/stages.h"
#include "trainer/text.h"
#include "trainer/validation/validation.h"
#include "trainer/validation/validation_metric.h"

namespace ventris {
namespace {

// Additional memory of the CUDA runtime, cuBLASLt's workspace, kernels, captured graphs and NCCL: an
// estimate.
constexpr int64_t kCudaReserve = int64_t{1536} << 20;
// The program, its libraries and MPI's buffers, resident: an estimate.
constexpr int64_t kProgram = int64_t{64} << 20;
// Bytes of a checkpoint in addition to data: the user block, HDF5's headers and attributes, and the header of
// a dataset.
constexpr int64_t kFileHeader = 8192;
constexpr int64_t kDatasetHeader = 512;
constexpr int kBestAndUnfinished = 2;
constexpr int kMinKeptCheckpoints = 2;   // CheckpointSaver always keeps at least this many
constexpr double kBackward = 2.0 / 3.0;  // of a micro-batch's time

/// The parts of a plan, each from those before it.
class Planner {
 public:
  Planner(const TrainOptions& options, const data::Corpus& corpus, TrainingPlan& plan)
      : options_(options),
        dtype_(dtype_of(options.precision)),
        machine_(plan.machine),
        corpus_(corpus),
        plan_(plan) {
    declare_transformer(options_.model, store_);
    freeze_parameters(options_.freeze, store_);
    plan_.parameters = store_.parameter_count();
  }

  void plan_memory(const data::BatchSource& batches) {
    plan_.micro_batch = training_capacity(batches);
    const int64_t flat = store_.flat_size();
    const int64_t trained = store_.trained_size();
    const DType master = master_dtype(dtype_);
    const auto add = [&](const char* name, auto bytes, bool on_device = true, bool exact = true) {
      plan_.memory.push_back(
          {name, static_cast<int64_t>(bytes), on_device && machine_.device == Device::kCuda, exact});
    };
    add("parameters", bytes_of(flat, master));
    add("gradients", bytes_of(trained, master));
    if (dtype_ == DType::kBF16) add("bf16 copy of the parameters", bytes_of(flat, DType::kBF16));
    add(options_.ema > 0.0 ? "Adam's moments and the average" : "Adam's moments",
        Optimizer::planned_bytes(trained, shares_state() ? owners().largest_share() : trained, master,
                                 options_));
    add("activations", Transformer::planned_bytes(options_.model, machine_.device, dtype_,
                                                  model_capacity(batches, corpus_, machine_.device),
                                                  options_.kept_activations()));
    if (machine_.ranks > 1 && options_.gradient_dtype != master)
      add("gradients to be sent", bytes_of(trained, options_.gradient_dtype));
    if (options_.reduction == Reduction::kReproducible)
      add("partial sums of gradients", partial_sums_bytes(), true, false);
    const size_t stages =
        2 * BatchStage::planned_bytes(plan_.micro_batch, training_orders(machine_.device, options_.model),
                                      staged_weights_of(corpus_.train()));
    if (machine_.device == Device::kCuda) add("batches", stages);
    add("batches in transfer", stages, false);
    add("scratch of operations", ContextOptions{}.scratch_bytes, true, false);
    const int64_t arrays = 1 + (trained < flat ? 1 : 0);  // and the one that is being written
    add("snapshot to be saved", bytes_of(arrays * flat + (options_.ema > 0.0 ? 3 : 2) * trained, DType::kF32),
        false);
    plan_.memory.back().once = true;
    if (options_.valid_every > 0 && has_validation_pairs(corpus_) && options_.translates_validation())
      add("translating for validation", search_bytes(), true, false);
    if (machine_.device == Device::kCuda) add("CUDA, cuBLASLt, graphs, NCCL", kCudaReserve, true, false);
    add("program and libraries", kProgram, false, false);
  }

  /// Steps by the batches of an epoch, or if it is long by its first ones.
  void count_steps(const data::BatchSource& batches) {
    // The mean of their batches is known within a percent.
    constexpr int64_t kEnoughPairs = int64_t{1} << 16;
    data::DataPosition position;
    double source = 0.0, target = 0.0, drawn = 0.0, steps = 0.0;
    while (position.epoch == 0 && position.index < kEnoughPairs && !batches.ended(position)) {
      const data::GlobalBatch batch = batches.at(position);
      source += static_cast<double>(batch.source_tokens);
      target += static_cast<double>(batch.target_tokens);
      drawn += static_cast<double>(batch.pairs);
      position = batch.next;
      ++steps;
    }
    plan_.source_tokens_per_step = source / steps;
    plan_.target_tokens_per_step = target / steps;
    plan_.steps_are_exact = position.epoch > 0;
    if (!plan_.steps_are_exact) steps = std::ceil(steps * static_cast<double>(plan_.pairs) / drawn);
    plan_.steps_per_epoch = std::llround(steps);
    plan_.steps = options_.max_steps;
    if (options_.max_epochs > 0 && options_.max_epochs <= options_.max_steps / plan_.steps_per_epoch)
      plan_.steps = std::min(plan_.steps, options_.max_epochs * plan_.steps_per_epoch);
    end_with_stages(batches.mix());
    plan_.epochs = static_cast<double>(plan_.steps) / steps;
  }

  void plan_checkpoints() {
    const int64_t models = options_.ema > 0.0 ? 2 : 1;
    const data::TokenizerModels tokenizers = corpus_.tokenizers().models();
    plan_.checkpoint_bytes = bytes_of(models * plan_.parameters + 2 * store_.flat_size(), DType::kF32) +
                             std::ssize(tokenizers.target) + std::ssize(tokenizers.source) + kFileHeader +
                             kDatasetHeader * (models * std::ssize(store_.logical()) + 3);
    const int64_t saves = options_.save_every > 0 ? plan_.steps / options_.save_every + 1 : 1;
    const int64_t kept = std::min<int64_t>(saves, std::max(options_.keep_checkpoints, kMinKeptCheckpoints));
    plan_.checkpoints = static_cast<int>(kept) + kBestAndUnfinished;
  }

  void predict() {
    if (machine_.step == 0.0) return;
    const double ranks = machine_.ranks;
    const double micro_batch = (machine_.step - machine_.fixed) / plan_.shards;
    PredictedStep& step = plan_.predicted.emplace();
    step.compute = machine_.fixed + micro_batch * plan_.shards_of_a_rank;
    const auto sent = [&](int64_t elements, DType dtype) {
      return (ranks - 1.0) / ranks * static_cast<double>(bytes_of(elements, dtype)) / machine_.sum_bandwidth;
    };
    if (machine_.ranks > 1) {
      const int64_t trained = store_.trained_size();
      const int64_t tail = tail_of_sums(store_, machine_.device);
      const auto others = static_cast<double>(bytes_of(trained - tail, options_.gradient_dtype));
      const double buckets = std::ceil(others / static_cast<double>(bucket_bytes_on(machine_.device)));
      const double sums = shares_state() ? 1.0 : 2.0;
      const double last = machine_.sum_latency + sums * sent(tail, options_.gradient_dtype);
      const double before =
          machine_.sum_latency * buckets + sums * sent(trained - tail, options_.gradient_dtype);
      const double parameters = shares_state() ? sent(trained, dtype_) : 0.0;
      const double hidden =
          machine_.device == Device::kCuda ? std::min(before, kBackward * micro_batch) : 0.0;
      step.exchange = before + last + parameters;
      step.exposed = step.exchange - hidden;
    }
    step.efficiency = machine_.step / (ranks * step.step());
  }

 private:
  /// The last stage of a plan may end the run.
  void end_with_stages(const data::MixPlan& mix) {
    using Kind = data::StageEnd::Kind;
    if (mix.empty() || mix.stages.back().end.kind == Kind::kNever) return;
    int64_t left = plan_.steps;
    for (const data::MixStage& stage : mix.stages) {
      if (stage.end.kind != Kind::kSteps) {
        plan_.steps_are_most = true;
        return;
      }
      left -= std::min(left, stage.end.count);
    }
    plan_.steps -= left;
  }

  static int64_t bytes_of(int64_t elements, DType dtype) {
    return elements * static_cast<int64_t>(size_of(dtype));
  }

  bool shares_state() const { return options_.shard_optimizer && machine_.ranks > 1; }

  ShardPlan owners() const { return OptimizerShard::plan_of(store_, machine_.device, machine_.ranks); }

  /// For the rank with the most: partial sums on its stack, and those received from other ranks.
  int64_t partial_sums_bytes() const {
    int stack = 0;
    for (int rank = 0; rank < machine_.ranks; ++rank) {
      const TreeShare share(plan_.shards, share_of_rank(plan_.shards, rank, machine_.ranks));
      stack = std::max(stack, share.stack_size());
    }
    const int64_t trained = store_.trained_size();
    const TreeLayout layout(plan_.shards, 0, machine_.ranks);
    const int64_t received =
        shares_state() ? layout.others() * owners().largest_share() : TreeSum::room_for(layout, trained);
    return bytes_of(stack * trained + received, master_dtype(dtype_));
  }

  /// Packed parameters on the CPU, the activations of an encoder, and the cache of keys and values.
  int64_t search_bytes() const {
    const TransformerConfig& model = options_.model;
    const int64_t rows = rows_that_suit(machine_.device);
    const int64_t cache = rows * (options_.valid_beam_size + 1) * model.decoder_layers * 2 * model.d_model;
    const int64_t packed = machine_.device == Device::kCpu ? store_.flat_size() : 0;
    return bytes_of(cache + packed, dtype_) +
           static_cast<int64_t>(Transformer::planned_bytes(
               model, machine_.device, dtype_, {rows, 1, static_cast<int>(rows)}, KeptActivations::kNone));
  }

  const TrainOptions& options_;
  const DType dtype_;
  const PlannedMachine& machine_;
  const data::Corpus& corpus_;
  TrainingPlan& plan_;
  ParameterStore store_;
};

/// The memory that does not suffice, of a device or a host, with remedies; "" if the run fits.
std::string excess_of(const TrainingPlan& plan) {
  constexpr const char* kLess =
      "smaller micro-batches (--micro-batch-tokens), --recompute, --precision bf16 or a smaller model need less";
  const PlannedMachine& machine = plan.machine;
  if (machine.device_memory > 0 && plan.device_bytes() > machine.device_memory) {
    return fmt::format("a rank needs {} on its CUDA device, which has {}: {}",
                       bytes_text(plan.device_bytes()), bytes_text(machine.device_memory), kLess);
  }
  if (machine.host_memory > 0 && plan.bytes_of_a_host() > machine.host_memory) {
    return fmt::format("the {} of a host need {} of its memory, which has {}: {}{}",
                       counted(machine.ranks_per_host, "rank"), bytes_text(plan.bytes_of_a_host()),
                       bytes_text(machine.host_memory), kLess,
                       machine.ranks_per_host > 1 ? ", and so do fewer ranks on a host" : "");
  }
  return "";
}

}  // namespace

int64_t TrainingPlan::device_bytes() const {
  int64_t sum = 0;
  for (const PlannedMemory& part : memory) sum += part.on_device ? part.bytes : 0;
  return sum;
}

int64_t TrainingPlan::host_bytes() const {
  int64_t sum = 0;
  for (const PlannedMemory& part : memory) sum += part.bytes;
  return sum - device_bytes();
}

int64_t TrainingPlan::bytes_of_a_host() const {
  int64_t sum = host_bytes() * machine.ranks_per_host;
  for (const PlannedMemory& part : memory) sum -= part.once ? (machine.ranks_per_host - 1) * part.bytes : 0;
  return sum;
}

TrainingPlan plan_training(const TrainOptions& given, const PlannedMachine& machine) {
  TrainOptions options = checked_options(given, machine.device);
  static_cast<void>(ValidationScorer(options));
  options.precision = resolved_precision(given.precision, Precision::kAuto, machine.device);
  const data::Corpus corpus(options.corpus);
  static_cast<void>(resolve_begin_embedding(options, "", corpus));
  resolve_tie(options, "", corpus);
  complete_model(options.model, options, corpus);
  check_schedule_is_validated(options, has_validation_pairs(corpus));
  if (!options.initial_model.empty()) InitialModel(options, corpus);
  TrainingPlan plan;
  plan.model = options.model;
  plan.precision = options.precision;
  plan.machine = machine;
  if (plan.machine.ranks_per_host == 0) plan.machine.ranks_per_host = machine.ranks;
  plan.shards = resolved_shards(options, {}, machine.ranks, machine.device, longest_rows(corpus));
  plan.shards_of_a_rank = (plan.shards + machine.ranks - 1) / machine.ranks;
  plan.pairs = corpus.train().size();
  const data::BatchSource batches(corpus.train(), corpus.parts(),
                                  {.source_tokens = options.batch_source_tokens,
                                   .target_tokens = options.batch_target_tokens,
                                   .shards = plan.shards,
                                   .seed = options.seed,
                                   .mix = resolved_mix(options, {}, corpus),
                                   .sampled = sampled_text(options, corpus)});
  Planner planner(options, corpus, plan);
  planner.plan_memory(batches);
  planner.count_steps(batches);
  planner.plan_checkpoints();
  planner.predict();
  plan.excess = excess_of(plan);
  return plan;
}

}  // namespace ventris
