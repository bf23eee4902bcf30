// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/training_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "backend/error.h"
#include "comm/shard_plan.h"
#include "comm/tree_sum.h"
#include "data/pair_lengths.h"
#include "model/batch_stage.h"
#include "model/search/beam_search.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/frozen_parameters.h"
#include "trainer/initial_embeddings.h"
#include "trainer/initial_model.h"
#include "trainer/optimizer.h"
#include "trainer/run_shape.h"
#include "trainer/schedule_options.h"
#include "trainer/stages.h"
#include "trainer/text.h"
#include "trainer/validation.h"

namespace ventris {
namespace {

constexpr int64_t kPlanMiB = int64_t{1} << 20;
// Additional memory of the CUDA runtime, cuBLASLt's workspace, kernels, captured graphs and NCCL: an
// estimate.
constexpr int64_t kCudaReserve = 1536 * kPlanMiB;
// The program, its libraries and MPI's buffers, resident: an estimate.
constexpr int64_t kProgram = 64 * kPlanMiB;
// Bytes of a checkpoint in addition to data: the user block, HDF5's headers and attributes, and the header of
// a dataset.
constexpr int64_t kFileHeader = 8192;
constexpr int64_t kDatasetHeader = 512;
constexpr int kBestAndUnfinished = 2;
constexpr int kMinKeptCheckpoints = 2;  // CheckpointSaver always keeps at least this many

/// The parts of a plan that depend on the number of shards.
class Planner {
 public:
  Planner(const TrainOptions& options, const PlannedMachine& machine, const data::Corpus& corpus)
      : options_(options), dtype_(dtype_of(options.precision)), machine_(machine), corpus_(corpus) {
    declare_transformer(options_.model, store_);
    freeze_parameters(options_.freeze, store_);
  }

  data::BatchSource batches(int shards) const { return batches(shards, corpus_.train()); }
  /// Of pairs of the corpus, or their lengths.
  data::BatchSource batches(int shards, const data::SentencePairs& pairs) const {
    return {pairs,
            corpus_.parts(),
            {.source_tokens = options_.batch_source_tokens,
             .target_tokens = options_.batch_target_tokens,
             .shards = shards,
             .seed = options_.seed,
             .mix = resolved_mix(options_, {}, corpus_),
             .sampled = sampled_text(options_, corpus_)}};
  }

  void plan_memory(TrainingPlan& plan, const data::BatchSource& batches) const {
    plan.micro_batch = training_capacity(batches);
    const int64_t flat = store_.flat_size();
    const int64_t trained = store_.trained_size();
    const DType master = master_dtype(dtype_);
    const auto elements = [&](DType dtype) { return flat * static_cast<int64_t>(size_of(dtype)); };
    const auto gradients = [&](DType dtype) { return trained * static_cast<int64_t>(size_of(dtype)); };
    const auto add = [&](const char* name, size_t bytes, bool on_device, bool exact) {
      plan.memory.push_back({name, static_cast<int64_t>(bytes), on_device, exact, /*once=*/false});
    };
    const auto exactly = [&](const char* name, size_t bytes) { add(name, bytes, true, true); };
    plan.memory.clear();
    exactly("parameters", static_cast<size_t>(elements(master)));
    exactly("gradients", static_cast<size_t>(gradients(master)));
    if (dtype_ == DType::kBF16)
      exactly("bf16 copy of the parameters", static_cast<size_t>(elements(DType::kBF16)));
    exactly(options_.ema > 0.0 ? "Adam's moments and the average" : "Adam's moments",
            Optimizer::planned_bytes(trained, shares_state() ? owners().largest_share() : trained, master,
                                     options_));
    exactly("activations", Transformer::planned_bytes(options_.model, machine_.device, dtype_,
                                                      model_capacity(batches, corpus_, machine_.device),
                                                      options_.kept_activations()));
    if (machine_.ranks > 1 && options_.gradient_dtype != master)
      exactly("gradients to be sent", static_cast<size_t>(gradients(options_.gradient_dtype)));
    if (options_.reduction == Reduction::kReproducible)
      add("partial sums of gradients", partial_sums_bytes(plan.shards), true, false);
    const size_t stages =
        2 * BatchStage::planned_bytes(plan.micro_batch, training_orders(machine_.device, options_.model),
                                      staged_weights_of(corpus_.train()));
    if (machine_.device == Device::kCuda) exactly("batches", stages);
    add("batches in transfer", stages, false, true);
    add("scratch of operations", ContextOptions{}.scratch_bytes, true, false);
    plan.memory.push_back({.name = "snapshot to be saved",
                           .bytes = elements(DType::kF32) +
                                    gradients(DType::kF32) * (options_.ema > 0.0 ? 3 : 2) +
                                    (trained < flat ? elements(DType::kF32) : 0),  // an array to be written
                           .on_device = false,
                           .exact = true,
                           .once = true});
    if (validates_by_search()) add("translating for validation", search_bytes(), true, false);
    if (machine_.device == Device::kCuda)
      add("CUDA, cuBLASLt, graphs, NCCL", static_cast<size_t>(kCudaReserve), true, false);
    add("program and libraries", static_cast<size_t>(kProgram), false, false);
  }

  int64_t parameters() const { return store_.parameter_count(); }
  int64_t frozen_parameters() const { return store_.frozen_count(); }

  int64_t checkpoint_bytes() const {
    const auto four_bytes = static_cast<int64_t>(sizeof(float));
    const int64_t models = options_.ema > 0.0 ? 2 : 1;
    const data::TokenizerModels tokenizers = corpus_.tokenizers().models();
    return four_bytes * (models * store_.parameter_count() + 2 * store_.flat_size()) +
           std::ssize(tokenizers.target) + std::ssize(tokenizers.source) + kFileHeader +
           kDatasetHeader * (models * std::ssize(store_.logical()) + 3);
  }

 private:
  bool validates_by_search() const {
    return options_.valid_every > 0 && has_validation_pairs(corpus_) && options_.translates_validation();
  }

  bool shares_state() const { return options_.shard_optimizer && machine_.ranks > 1; }

  ShardPlan owners() const { return OptimizerShard::plan_of(store_, machine_.device, machine_.ranks); }

  /// For the rank with the most: partial sums on its stack, and those received from other ranks.
  size_t partial_sums_bytes(int shards) const {
    int stack = 0;
    for (int rank = 0; rank < machine_.ranks; ++rank) {
      stack = std::max(stack, TreeShare(shards, share_of_rank(shards, rank, machine_.ranks)).stack_size());
    }
    const int64_t trained = store_.trained_size();
    const TreeLayout layout(shards, 0, machine_.ranks);
    const int64_t received =
        shares_state() ? layout.others() * owners().largest_share() : TreeSum::room_for(layout, trained);
    return static_cast<size_t>(stack * trained + received) * size_of(master_dtype(dtype_));
  }

  /// Packed parameters on the CPU, the activations of an encoder, and the cache of keys and values.
  size_t search_bytes() const {
    const TransformerConfig& model = options_.model;
    const int64_t rows = rows_that_suit(machine_.device);
    const auto width = static_cast<int64_t>(size_of(dtype_));
    const int64_t cache = rows * (options_.valid_beam_size + 1) * model.decoder_layers * 2 * model.d_model;
    const int64_t packed = machine_.device == Device::kCpu ? store_.flat_size() : 0;
    return static_cast<size_t>((cache + packed) * width) +
           Transformer::planned_bytes(model, machine_.device, dtype_, {rows, 1, static_cast<int>(rows)},
                                      KeptActivations::kNone);
  }

  const TrainOptions& options_;
  const DType dtype_;
  const PlannedMachine& machine_;
  const data::Corpus& corpus_;
  ParameterStore store_;
};

/// The lengths of all pairs, or of many in blocks that lie on few pages of the file.
data::PairLengths lengths_of(const data::SentencePairs& pairs, uint64_t seed) {
  constexpr int64_t kAll = int64_t{1} << 16;
  constexpr int64_t kBlocks = 512;
  constexpr int64_t kBlock = 64;
  return pairs.size() <= kAll ? data::PairLengths::of_all(pairs, 1)
                              : data::PairLengths::of_blocks(pairs, kBlocks, kBlock, seed);
}

/// Iterates over the batches of an epoch of the lengths; over the first ones of the corpus itself where they
/// depend on more.
void count_steps(TrainingPlan& plan, const Planner& planner, const TrainOptions& options,
                 const data::SentencePairs& pairs) {
  constexpr int64_t kEnoughPairs = 8192;  // of which the mean of batches is known within a percent
  std::optional<data::PairLengths> lengths;
  if (const data::BatchSource all = planner.batches(plan.shards); all.mix().empty() && !all.samples())
    lengths.emplace(lengths_of(pairs, options.seed));
  const data::SentencePairs& counted = lengths ? lengths->pairs() : pairs;
  const data::BatchSource batches = planner.batches(plan.shards, counted);
  const int64_t enough = lengths ? counted.size() : kEnoughPairs;
  data::DataPosition position;
  double source = 0.0;
  double target = 0.0;
  int64_t drawn = 0;
  while (position.epoch == 0 && position.index < enough && !batches.ended(position)) {
    const data::GlobalBatch batch = batches.at(position);
    source += static_cast<double>(batch.source_tokens);
    target += static_cast<double>(batch.target_tokens);
    drawn += batch.pairs;
    position = batch.next;
    ++plan.steps_per_epoch;
  }
  plan.source_tokens_per_step = source / static_cast<double>(plan.steps_per_epoch);
  plan.target_tokens_per_step = target / static_cast<double>(plan.steps_per_epoch);
  plan.steps_are_exact = position.epoch > 0 && counted.size() == pairs.size();
  if (plan.steps_are_exact) return;
  if (batches.samples()) {
    plan.steps_per_epoch = std::llround(static_cast<double>(pairs.size()) / static_cast<double>(drawn) *
                                        static_cast<double>(plan.steps_per_epoch));
    return;
  }
  // With end marks, as in batches. More steps than these are of one side only where the other leaves room.
  const auto steps_of = [&](const data::SentenceArray& side, double tokens_of_a_step) {
    return static_cast<double>(side.total_tokens() + side.size()) / tokens_of_a_step;
  };
  const double steps = std::max(steps_of(pairs.source, plan.source_tokens_per_step),
                                steps_of(pairs.target, plan.target_tokens_per_step));
  plan.steps_per_epoch = std::llround(std::ceil(steps));  // the last one begins in this epoch too
}

/// Steps of a stage until it has drawn what its end says, by the lengths of its corpora and how full the
/// steps of the first epoch are.
int64_t estimated_steps(const TrainingPlan& plan, const TrainOptions& options, const data::MixStage& stage,
                        const std::vector<data::CorpusPart>& parts) {
  double shares = 0.0, source = 0.0, target = 0.0, to_draw = 0.0;
  for (const auto& [corpus, share] : stage.shares) {
    for (const data::CorpusPart& part : parts) {
      if (part.name != corpus || share <= 0.0) continue;
      const auto pairs = static_cast<double>(part.pairs);
      shares += share;
      source += share * (static_cast<double>(part.source_tokens) / pairs + 1.0);
      target += share * (static_cast<double>(part.target_tokens) / pairs + 1.0);
      if (corpus == stage.end.corpus) to_draw = static_cast<double>(stage.end.count) * pairs / share;
    }
  }
  const auto source_room = static_cast<double>(options.batch_source_tokens);
  const auto target_room = static_cast<double>(options.batch_target_tokens);
  const double full =
      std::max(plan.source_tokens_per_step / source_room, plan.target_tokens_per_step / target_room);
  const double pairs_of_step = full * shares * std::min(source_room / source, target_room / target);
  return std::llround(std::ceil(shares * to_draw / pairs_of_step));
}

void plan_stages(TrainingPlan& plan, const TrainOptions& options, const data::MixPlan& mix,
                 const std::vector<data::CorpusPart>& parts) {
  for (const data::MixStage& stage : mix.stages) {
    PlannedStage& planned = plan.stages.emplace_back();
    planned.name = stage.name;
    planned.end = data::to_text(stage.end);
    planned.estimated = stage.end.kind == data::StageEnd::Kind::kEpochs;
    if (planned.estimated) planned.steps = estimated_steps(plan, options, stage, parts);
    if (stage.end.kind == data::StageEnd::Kind::kSteps) planned.steps = stage.end.count;
  }
}

/// Steps of all stages; 0 if one may last to the end of training.
int64_t steps_of_stages(const TrainingPlan& plan) {
  int64_t steps = 0;
  for (const PlannedStage& stage : plan.stages) {
    if (stage.steps == 0) return 0;
    steps += stage.steps;
  }
  return steps;
}

void predict(TrainingPlan& plan, const TrainOptions& options, const data::Corpus& corpus) {
  const auto pairs = static_cast<double>(corpus.train().size());
  const auto of_a_pair = [&](const data::SentenceArray& side) {
    return static_cast<double>(side.total_tokens()) / pairs;
  };
  if (options.recompute) {
    plan.recomputed =
        recomputed_share(options.model, of_a_pair(corpus.train().source), of_a_pair(corpus.train().target));
  }
  if (!plan.machine.link) return;
  plan.predicted = predict_step(*plan.machine.link, {.model = options.model,
                                                     .device = plan.machine.device,
                                                     .reduction = options.reduction,
                                                     .gradient_dtype = options.gradient_dtype,
                                                     .precision = dtype_of(options.precision),
                                                     .recompute = options.recompute,
                                                     .shard_optimizer = options.shard_optimizer,
                                                     .ranks = plan.machine.ranks,
                                                     .ranks_per_host = plan.machine.ranks_per_host,
                                                     .shards = plan.shards,
                                                     .freeze = options.freeze,
                                                     .source_tokens = of_a_pair(corpus.train().source),
                                                     .target_tokens = of_a_pair(corpus.train().target)});
}

/// Throws as embedding_files() and read_embeddings().
void try_embeddings(const TrainOptions& options, const data::Corpus& corpus) {
  const data::TokenizerPair& tokenizers = corpus.tokenizers();
  for (const EmbeddingFile& file : embedding_files(options, tokenizers.shared())) {
    const data::Tokenizer& tokenizer = file.source ? tokenizers.source() : tokenizers.target();
    const int64_t rows = tokenizer.vocab_size();
    const int64_t cols = options.model.d_model;
    std::vector<float> table(static_cast<size_t>(rows * cols));
    read_embeddings(file, tokenizer, {table.data(), rows, cols, cols, DType::kF32});
  }
}

bool memory_fits(const TrainingPlan& plan) {
  const PlannedMachine& machine = plan.machine;
  return (machine.device == Device::kCpu || machine.device_memory == 0 ||
          plan.device_bytes() <= machine.device_memory) &&
         (machine.host_memory == 0 || plan.bytes_of_a_host() <= machine.host_memory);
}

/// The smallest larger number of shards with which the plan fits, as text; "" if there is none.
std::string smaller_micro_batches(TrainingPlan plan, const Planner& planner) {
  constexpr int kMaxShards = 65536;
  for (plan.shards *= 2; plan.shards <= kMaxShards; plan.shards *= 2) {
    try {
      planner.plan_memory(plan, planner.batches(plan.shards));
    } catch (const std::exception&) {
      return "";  // the longest sentence does not fit in such a shard
    }
    if (memory_fits(plan))
      return fmt::format("--logical-shards {} (smaller micro-batches) fits", plan.shards);
  }
  return "";
}

std::string excess(const TrainingPlan& plan, const Planner& planner) {
  const PlannedMachine& machine = plan.machine;
  std::vector<std::string> found;
  if (!memory_fits(plan)) {
    if (machine.device == Device::kCuda && machine.device_memory > 0 &&
        plan.device_bytes() > machine.device_memory) {
      found.push_back(fmt::format("a rank needs {} on its CUDA device, which has {}",
                                  bytes_text(plan.device_bytes()), bytes_text(machine.device_memory)));
    }
    if (machine.host_memory > 0 && plan.bytes_of_a_host() > machine.host_memory) {
      found.push_back(
          fmt::format("the {} of a host need {} of its memory, which has {}",
                      machine.ranks_per_host == 1 ? "rank" : counted(machine.ranks_per_host, "rank"),
                      bytes_text(plan.bytes_of_a_host()), bytes_text(machine.host_memory)));
    }
    const std::string shards = smaller_micro_batches(plan, planner);
    std::string advice =
        !shards.empty() ? shards
        : plan.precision != Precision::kBF16
            ? "smaller micro-batches alone are not enough; try --precision bf16, "
              "or a smaller model (--preset, --d-model, --encoder-layers, --decoder-layers)"
            : "smaller micro-batches are not enough; use a smaller model (--preset, --d-model, "
              "--encoder-layers, --decoder-layers)";
    const bool host_excess = machine.host_memory > 0 && plan.bytes_of_a_host() > machine.host_memory;
    if (host_excess && machine.ranks_per_host > 1) advice += ", or fewer ranks on a host";
    found.back() += ": " + advice;
  }
  if (machine.free_disk > 0 && plan.disk_bytes() > machine.free_disk) {
    const int64_t max = machine.free_disk / plan.checkpoint_bytes - kBestAndUnfinished;
    found.push_back(fmt::format("{} checkpoints of {} need {} of disk, and {} are free: {}", plan.checkpoints,
                                bytes_text(plan.checkpoint_bytes), bytes_text(plan.disk_bytes()),
                                bytes_text(machine.free_disk),
                                max >= kMinKeptCheckpoints ? fmt::format("--keep-checkpoints {} fits", max)
                                                           : "free space, or use another --model-dir"));
  }
  return fmt::format("{}", fmt::join(found, "; "));
}

}  // namespace

int64_t TrainingPlan::device_bytes() const {
  int64_t sum = 0;
  for (const PlannedMemory& part : memory)
    sum += part.on_device && machine.device == Device::kCuda ? part.bytes : 0;
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
  options.precision = resolved_precision(given.precision, Precision::kAuto, machine.device);
  const data::Corpus corpus(options.corpus);
  static_cast<void>(resolve_begin_embedding(options, "", corpus));
  resolve_tie(options, "", corpus);
  complete_model(options.model, options, corpus);
  if (!options.initial_model.empty()) InitialModel(options, corpus);
  try_embeddings(options, corpus);
  TrainingPlan plan;
  plan.model = options.model;
  plan.precision = options.precision;
  plan.machine = machine;
  if (plan.machine.ranks_per_host == 0) plan.machine.ranks_per_host = machine.ranks;
  plan.shards = resolved_shards(options, {}, machine.ranks, machine.device, longest_rows(corpus));
  plan.shards_of_a_rank = (plan.shards + machine.ranks - 1) / machine.ranks;
  const Planner planner(options, plan.machine, corpus);
  const data::BatchSource batches = planner.batches(plan.shards);
  plan.parameters = planner.parameters();
  plan.frozen_parameters = planner.frozen_parameters();
  planner.plan_memory(plan, batches);
  plan.corpus_bytes = static_cast<int64_t>(std::filesystem::file_size(corpus.path()));
  plan.pairs = corpus.train().size();
  count_steps(plan, planner, options, corpus.train());
  predict(plan, options, corpus);
  plan.steps = options.max_steps;
  plan.schedule = describe_schedule(options);
  check_schedule_is_validated(options, has_validation_pairs(corpus));
  if (options.max_epochs > 0 && options.max_epochs <= options.max_steps / plan.steps_per_epoch)
    plan.steps = std::min(plan.steps, options.max_epochs * plan.steps_per_epoch);
  plan_stages(plan, options, batches.mix(), corpus.parts());
  if (const int64_t steps = steps_of_stages(plan); steps > 0) plan.steps = std::min(plan.steps, steps);
  plan.epochs = static_cast<double>(plan.steps) / static_cast<double>(plan.steps_per_epoch);
  plan.checkpoint_bytes = planner.checkpoint_bytes();
  const int64_t saves = options.save_every > 0 ? plan.steps / options.save_every + 1 : 1;
  plan.checkpoints =
      static_cast<int>(std::min<int64_t>(saves, std::max(options.keep_checkpoints, kMinKeptCheckpoints))) +
      kBestAndUnfinished;
  plan.excess = excess(plan, planner);
  return plan;
}

}  // namespace ventris
