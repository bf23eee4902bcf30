// SPDX-License-Identifier: Apache-2.0
#include "trainer/run.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "backend/ops/gemm_choices.h"
#include "comm/affinity.h"
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/lock_run_folder.h"
#include "trainer/checkpoint/resume.h"
#include "trainer/checkpoint/resume_signature.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/save_timeout.h"
#include "trainer/frozen_parameters.h"
#include "trainer/initial_values.h"
#include "trainer/observers/metrics.h"
#include "trainer/observers/run_status.h"
#include "trainer/observers/start_report.h"
#include "trainer/observers/tensorboard.h"
#include "trainer/product_choices.h"
#include "trainer/program_version.h"
#include "trainer/rank_consistency.h"
#include "trainer/run_environment.h"
#include "trainer/run_shape.h"
#include "trainer/schedule_options.h"
#include "trainer/signals.h"
#include "trainer/stages.h"
#include "trainer/text.h"
#include "trainer/train_options_json.h"
#include "trainer/validation/valid_outputs.h"
#include "trainer/validation/validation_metric.h"

namespace ventris {
namespace {

StartPoint find_start(Communicator& communicator, const TrainOptions& options, const std::string& command,
                      Progress& progress) {
  StartPoint start = {.command = command,
                      .lock = lock_run_folder(communicator, options.model_dir, progress),
                      .resume_point = {}};
  start.resume_point = find_resume_point(communicator, options, start.lock && start.lock->held(), progress);
  return start;
}

/// Resolves --mix and --logical-shards.
data::BatchSource make_batches(TrainOptions& options, const ResumePoint& from, const data::Corpus& corpus,
                               int ranks, Device device) {
  data::MixPlan mix = resolved_mix(options, from, corpus);
  options.mix = data::to_text(mix);
  options.logical_shards = resolved_shards(options, from, ranks, device, longest_rows(corpus));
  return {corpus.train(),
          corpus.parts(),
          {.source_tokens = options.batch_source_tokens,
           .target_tokens = options.batch_target_tokens,
           .shards = options.logical_shards,
           .seed = options.seed,
           .mix = std::move(mix),
           .sampled = sampled_text(options, corpus)}};
}

/// Resolves what else is automatic, and completes the model; then the ranks compare their options. Returns
/// messages about choices.
std::vector<std::string> resolve_options(Run& run) {
  TrainOptions& options = run.options;
  const data::Corpus& corpus = run.corpus.corpus;
  const ResumePoint& from = run.start.resume_point;
  options.precision = resolved_precision(options.precision, from.precision, run.context.device());
  const std::vector<std::string> references = run.corpus.valid_sets.first_references();
  std::vector<std::string> choices = {resolve_begin_embedding(options, from.begin_embedding, corpus),
                                      resolve_valid_tokenizer(options, from.valid_metric, references)};
  resolve_valid_metric(options, from.valid_metric, references);
  resolve_tie(options, from.tie, corpus);
  complete_model(options.model, options, corpus);
  const bool has_pairs = !run.corpus.valid_sets.empty();
  if (!options.valid_script.empty() && !has_pairs) {
    fail(
        ExitCode::kBadConfiguration,
        "--valid-script needs validations, but {} has no validation pairs; 'ventris prepare --valid-sets' adds "
        "them",
        options.corpus);
  }
  check_schedule_is_validated(options, has_pairs);
  check_same_run_on_all_ranks(run.communicator, options, corpus);
  std::erase(choices, "");
  return choices;
}

TrainingState new_state(const Run& run) {
  TrainingState state;
  state.corpus_digest = run.corpus.corpus.digest();
  state.resume_signature = resume_signature(run.options);
  state.valid_metric = recorded_metric(run.options);
  state.logical_shards = run.options.logical_shards;
  state.mix.plan = run.options.mix;
  state.environment = run_environment(run.communicator);
  return state;
}

void make_model(Run& run, InitialValues& initial) {
  Context& context = run.context;
  const TrainOptions& options = run.options;
  const data::Corpus& corpus = run.corpus.corpus;
  auto& [store, ids, transformer] = run.model;
  use_tf32(context, options.precision == Precision::kTf32);
  ids = declare_transformer(options.model, store);
  freeze_parameters(options.freeze, store);
  store.allocate(context.device(), dtype_of(options.precision), /*gradients=*/true);
  store.initialize(context, options.seed);
  initial.take_parameters(ids, store);
  store.refresh_compute_copy(context);
  run.optimizer.emplace(context, store, options, run.communicator.rank(), run.communicator.size());
  const MicroBatchCapacity capacity = model_capacity(run.batches, corpus, context.device());
  transformer.emplace(context, options.model, store, ids, capacity, options.kept_activations());
  run.step.emplace(context, run.communicator, options, options.logical_shards, store, *transformer,
                   *run.optimizer);
  if (run.corpus.valid_sets.empty()) return;
  run.validating.validation.emplace(context, run.communicator, corpus, run.corpus.valid_sets, options,
                                    validation_rows_of(context.device()));
}

/// The limit that a finished run reached.
std::string reached_limit(const Run& run) {
  const TrainOptions& options = run.options;
  if (run.state.step >= options.max_steps) return fmt::format("has all {} steps", options.max_steps);
  if (options.max_epochs > 0 && run.state.position.epoch >= options.max_epochs)
    return fmt::format("has all {}", counted(options.max_epochs, "epoch"));
  if (run.batches.ended(run.state.position)) return "has all stages of its plan";
  return fmt::format("has seen {} without a better one", counted(options.patience, "validation"));
}

/// Parameters, moments and state: those of the checkpoint, or the initial ones.
void restore(Run& run, InitialValues& initial) {
  StartPoint& start = run.start;
  TrainingState& state = run.state;
  resume(run.context, run.communicator, start.resume_point, run.options, run.model.store, *run.optimizer,
         state, run.reporting.progress);
  run.saving.last_checkpoint = start.resume_point.path;
  const bool resumes = !run.saving.last_checkpoint.empty();
  if (!resumes) state.initial_updates = initial.take_moments(run.model.store, *run.optimizer);
  run.optimizer->set_updates(state.initial_updates + state.step - state.skipped_steps);
  start.step = state.step;
  start.epoch = run.epochs();
  start.elapsed_seconds = state.elapsed_seconds;
  if (!resumes) return;
  run.saving.saved_step = state.step;
  start.nothing_to_do = !run.training_continues() && !run.validation_is_pending();
  run.reporting.progress.message(
      start.nothing_to_do
          ? fmt::format("nothing to do: {} {}", run.saving.last_checkpoint, reached_limit(run))
          : fmt::format("resuming from {} at step {}", run.saving.last_checkpoint, state.step));
}

/// This start, and how the previous one ended: its status.json has not been replaced yet.
ResumedStart resumed_start(const Run& run, int64_t last_dropped) {
  constexpr size_t kMaxMessageBytes = 2000;  // so that a line of the log stays far below kMaxJsonBytes
  const std::vector<int> hosts = run.communicator.hosts();
  const int64_t step = run.state.step;
  ResumedStart start = {.checkpoint = data::without_folder(run.saving.last_checkpoint),
                        .program = program_name_and_version(),
                        .device = run.context.device() == Device::kCuda ? "cuda" : "cpu",
                        .hosts = static_cast<int>(std::set<int>(hosts.begin(), hosts.end()).size()),
                        .lost_steps = std::max<int64_t>(last_dropped - step, 0)};
  const std::optional<StatusRecord> before = read_status(run.options.model_dir);
  if (!before) return start;
  // This start holds the folder, so no other process runs there.
  const bool was_killed = before->state == "running";
  start.previous_state = was_killed ? "killed" : before->state;
  start.previous_message = before->message.substr(0, kMaxMessageBytes);
  if (was_killed) return start;
  start.previous_exit_code = before->exit_code;
  // The step of a failure may not have been completed.
  if (before->state == "failed") start.lost_steps = std::max(start.lost_steps, before->step - 1 - step);
  return start;
}

/// Opens the log, which drops later lines, and what else observes the run, on rank 0. Returns the start to
/// report.
RunStart open_observers(Run& run) {
  const std::string& folder = run.options.model_dir;
  RunStart start = {.model_dir = folder,
                    .host = host_name(),
                    .rank = run.communicator.rank(),
                    .ranks = run.communicator.size(),
                    .step = run.state.step,
                    .last_checkpoint = run.saving.last_checkpoint};
  if (start.rank != 0) return start;
  const bool resumes = !start.last_checkpoint.empty();
  run.check_environment();
  auto log = std::make_unique<MetricsLog>(folder, resumes ? start.step : -1, run.validation_is_pending());
  if (!run.start.nothing_to_do) {
    if (resumes) start.resumed = resumed_start(run, log->last_dropped());
    if (run.options.tensorboard) {
      log->set_listener([events = std::make_shared<TensorBoardLog>(folder)](
                            const nlohmann::ordered_json& line) { events->write_line(line); });
    }
  }
  run.reporting.observers.push_back(std::move(log));
  if (!run.start.nothing_to_do && !run.options.valid_script.empty()) {
    std::vector<std::string> sets;
    for (const ValidationSet& set : run.corpus.valid_sets.all()) sets.push_back(set.name);
    auto script = std::make_unique<ValidationScript>(
        run.options, std::move(sets), [&reporting = run.reporting](const ScriptResult& result) {
          reporting.notify(&Observer::on_script_result, result);
        });
    run.validating.script = script.get();
    run.reporting.observers.push_back(std::move(script));
  }
  return start;
}

void open_saver(Run& run) {
  const TrainOptions& options = run.options;
  forget_best_that_is_gone(options.model_dir);
  if (options.keeps_translations())
    remove_later_valid_outputs(options.model_dir, run.saving.last_checkpoint.empty() ? -1 : run.state.step);
  run.saving.saver.emplace(run.context, run.model.store, run.optimizer->has_average(),
                           CheckpointSaver::Run{.model_dir = options.model_dir,
                                                .config = options.model,
                                                .tokenizers = run.corpus.corpus.tokenizers().models(),
                                                .keep = options.keep_checkpoints,
                                                .limit_seconds = save_timeout(),
                                                .lower_rate = half_the_rate(options),
                                                .begun_from = run.saving.last_checkpoint,
                                                .folder = run.start.lock.get()});
}

void write_description(Run& run) {
  const TrainOptions& options = run.options;
  const bool resumes = !run.saving.last_checkpoint.empty();
  const TrainOptions recorded = report_changed_options(run.reporting.progress, options, resumes);
  data::write_file_atomically(path_of_config(options.model_dir),
                              config_json(recorded, run.state.environment) + "\n");
  data::write_file_atomically(options.model_dir + "/command.txt", run.start.command + "\n");
}

/// Computes the first micro-batch of the next step, and forgets the result.
void warm_up_kernels(Run& run) {
  BatchFeed feed(run.context, run.corpus.corpus, run.batches, run.options.model,
                 training_capacity(run.batches), {0, 1},
                 // The run may resume only to validate.
                 {run.batches.ended(run.state.position) ? data::DataPosition{} : run.state.position,
                  run.state.step + 1});
  feed.next_step();
  run.model.transformer->forward_backward(feed.next_micro_batch().batch, run.options.seed, {});
  fill_zero(run.context, run.model.store.gradients());
  fill_zero(run.context, run.model.transformer->loss_sums());
  synchronize(run.context);
}

}  // namespace

Run::Run(Context& context, Communicator& communicator, const TrainOptions& given, const std::string& command,
         Observer* observer)
    : context(context),
      communicator(communicator),
      options(checked_options(given, context.device())),
      reporting{.progress = Progress(communicator.rank() == 0, options), .caller = observer},
      corpus(options.corpus),
      start(find_start(communicator, options, command, reporting.progress)),
      batches(
          make_batches(options, start.resume_point, corpus.corpus, communicator.size(), context.device())),
      schedule(schedule_of(options)),
      ranks(communicator),
      reports(context) {}

bool Run::training_continues() const {
  return !agreed.stop_requested && !agreed.out_of_time && state.step < options.max_steps &&
         (options.max_epochs == 0 || state.position.epoch < options.max_epochs) &&
         (options.patience == 0 || state.validations_without_improvement < options.patience) &&
         !batches.ended(state.position);
}

bool Run::validation_is_pending() const {
  // A run that begins with another's parameters starts with their scores.
  const bool pending = state.validation_pending != 0 ||
                       (state.step == 0 && !options.initial_model.empty() && validating.validated_step < 0);
  return validates() && pending && !agreed.stop_requested;
}

double Run::epochs() const {
  return static_cast<double>(state.position.epoch) +
         static_cast<double>(state.position.index) / static_cast<double>(corpus.corpus.train().size());
}

double Run::seconds() const {
  return std::chrono::duration<double>(RunClocks::Clock::now() - clocks.begin).count();
}

IntervalMetrics Run::interval_metrics() const {
  const IntervalSums& sums = reporting.interval;
  IntervalMetrics metrics = {.step = state.step,
                             .epoch = epochs(),
                             .sums = sums,
                             .learning_rate = reporting.learning_rate,
                             .gradient_norm = reporting.gradient_norm,
                             .target_tokens = state.target_tokens,
                             .elapsed_seconds = state.elapsed_seconds,
                             .seconds_left = seconds_left(options, {.first_step = start.step,
                                                                    .step = state.step,
                                                                    .first_epoch = start.epoch,
                                                                    .epoch = epochs(),
                                                                    .seconds = seconds()}),
                             .skipped_steps = state.skipped_steps};
  if (context.device() == Device::kCuda) {
    const double device_seconds = sums.seconds * communicator.size();
    metrics.device = {.flops_per_second = device_seconds > 0.0 ? sums.flops / device_seconds : 0.0,
                      .memory_bytes = cuda_memory().used};
  }
  const data::MixPlan& mix = batches.mix();
  if (mix.empty()) return metrics;
  const data::MixPosition& position = state.position.mix;
  const int64_t stage = position.steps == 0 && position.stage > 0 ? position.stage - 1 : position.stage;
  metrics.stage = mix.stages[static_cast<size_t>(stage)].name;
  const std::vector<int64_t> drawn = batches.drawn(state.position);
  for (size_t part = 0; part < drawn.size(); ++part)
    metrics.pairs.emplace_back(corpus.corpus.parts()[part].name, drawn[part]);
  return metrics;
}

void Run::check_environment() const {
  corpus.watch.check();
  if (start.lock) start.lock->check();
}

std::unique_ptr<Run> make_run(Context& context, Communicator& communicator, const TrainOptions& options,
                              const std::string& command, Observer* observer) {
  static_cast<void>(ValidationScorer(options));  // an unknown --valid-tokenize is refused before files change
  auto made = std::make_unique<Run>(context, communicator, options, command, observer);
  Run& run = *made;
  Progress& progress = run.reporting.progress;
  const ResumePoint& from = run.start.resume_point;
  const std::string precision = describe_precision(options.precision, from.precision, context.device());
  const std::vector<std::string> choices = resolve_options(run);
  run.state = new_state(run);
  InitialValues initial(context, communicator, run.options, run.corpus.corpus, !from.path.empty(), progress);
  make_model(run, initial);
  restore(run, initial);
  const bool works = !run.start.nothing_to_do;
  for (const std::string& choice : choices) {
    if (works) progress.message(choice);
  }
  const RunStart start = open_observers(run);
  const bool first_rank = communicator.rank() == 0;
  if (first_rank) open_saver(run);
  // Not before: a refused start leaves the files of the previous one.
  if (first_rank && works) write_description(run);
  run.reporting.notify(&Observer::on_start, start);
  run.feed.emplace(context, run.corpus.corpus, run.batches, run.options.model, training_capacity(run.batches),
                   run.step->share(), BatchFeed::Start{run.state.position, run.state.step + 1});
  if (works) {
    run.state.product_choices = settle_product_choices(
        context, communicator, run.state.product_choices, [&run] { warm_up_kernels(run); }, progress);
  }
  if (options.profile) context.profile().clear();
  if (works) {
    report_start(progress, communicator, context, run.options, precision, run.corpus.corpus,
                 run.corpus.valid_sets, run.model.store, run.state.step,
                 run.schedule.learning_rate(run.state.step + 1, run.state.plateau_factor));
  }
  run.agreed.stop_requested = run.ranks.any(stop_requested());  // during the setup
  return made;
}

}  // namespace ventris
