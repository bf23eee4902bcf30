// SPDX-License-Identifier: Apache-2.0
#include "trainer/train.h"

#include <sys/resource.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "comm/communicator.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/checkpoint/replica_check.h"
#include "trainer/observers/stragglers.h"
#include "trainer/run.h"
#include "trainer/signals.h"
#include "trainer/stages.h"
#include "trainer/validation/best.h"
#include "trainer/validation/valid_outputs.h"
#include "trainer/validation/validation_metric.h"

namespace ventris {
namespace {

// Interval of the messages of rank 0 to the others while it waits for a disk.
constexpr std::chrono::milliseconds kLongestSilence{50};

// Steps that a profile measures: none of the first ones of a run, in which memory grows and algorithms are
// chosen; on CUDA few, as they are not replayed.
constexpr int64_t kFirstMeasuredStep = 3;
constexpr int64_t kCudaMeasuredSteps = 10;

// Steps between comparisons of the ranks, in addition to those before saves.
constexpr int64_t kCheckedSteps = 1000;

// What is due after a step follows from its number alone, so that all ranks do it.

bool log_is_due(const Run& run) {
  return run.state.step % run.options.log_every == 0 || !run.training_continues();
}

bool digest_is_due(const Run& run) {
  return run.options.digest_every > 0 && run.state.step % run.options.digest_every == 0;
}

bool replica_check_is_due(const Run& run) {
  return run.communicator.size() > 1 && run.state.step % kCheckedSteps == 0;
}

bool validation_is_due(const Run& run) {
  return run.validates() && run.state.step % run.options.valid_every == 0;
}

/// The last state is saved by finish(), after its validation: a restarted program takes a checkpoint of the
/// last step as complete.
bool save_is_due(const Run& run) {
  return run.options.save_every > 0 && run.state.step % run.options.save_every == 0 &&
         run.saving.saved_step != run.state.step && run.training_continues();
}

/// The work after the step needs the numbers of all steps.
bool reports_are_due(const Run& run) {
  return log_is_due(run) || digest_is_due(run) || replica_check_is_due(run) || validation_is_due(run) ||
         save_is_due(run);
}

/// Whether the profile measures the step.
bool measures_step(const Run& run) {
  const int64_t later = run.state.step - run.start.step - kFirstMeasuredStep;
  return run.options.profile && later >= 0 &&
         (run.context.device() == Device::kCpu || later % kCudaMeasuredSteps == 0);
}

/// The largest resident set of this process so far.
int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

/// Gives every rank the masters of the step, if their owners alone have them; in f32 every step shares them.
void complete_masters(Run& run) {
  if (dtype_of(run.options.precision) != DType::kF32) run.step->share_masters();
}

/// Swaps the parameters with their average, if there is one.
void exchange_with_average(Run& run) {
  if (!run.optimizer->has_average()) return;
  run.optimizer->exchange_with_average();
  run.step->share_masters();
  run.model.store.refresh_compute_copy(run.context);
}

void log_interval(Run& run) {
  run.reporting.notify(&Observer::on_interval, run.interval_metrics());
  run.reporting.interval = {};
  const int ranks = run.communicator.size();
  if (ranks == 1 || run.options.logical_shards % ranks != 0) return;  // unequal work
  // The host does not see for how long devices wait for each other.
  const bool on_host = run.context.device() == Device::kCpu;
  const double seconds = on_host ? std::exchange(run.clocks.own_seconds, 0.0) : run.step->own_seconds();
  const std::string straggler =
      describe_straggler(gather_rank_times(run.communicator, seconds), on_host ? kLeastHostMedian : 0.0);
  if (!straggler.empty()) run.reporting.progress.message(straggler);
}

void report_digest(Run& run) {
  complete_masters(run);
  if (run.communicator.rank() != 0) return;
  const StepDigest digest = {.step = run.state.step,
                             .digest = parameter_digest(run.context, run.model.store)};
  run.reporting.notify(&Observer::on_digest, digest);
}

void count_skipped_step(Run& run, const StepReports::Arrived& arrived) {
  NotFinitePlaces places = arrived.report.not_finite;
  if (run.optimizer->shard().is_part()) places = places_on_all_ranks(run.communicator, places);
  SkippedStep skipped = {
      .step = arrived.of.step, .place = describe_not_finite(run.model.store, places), .first_seen = {}};
  run.divergence.count_skipped_step(skipped.step, skipped.place);
  skipped.first_seen = run.divergence.first_seen();
  run.reporting.notify(&Observer::on_skipped_step, skipped);
  if (!run.divergence.has_diverged()) return;
  // All ranks reach this point in the same step. None leaves while another waits for sums with it.
  while (run.reports.next(0)) {
  }
  run.communicator.barrier();
  std::optional<CheckpointSaver>& saver = run.saving.saver;
  run.divergence.fail(run.communicator.broadcast(saver ? saver->last_verified() : "", 0), run.options);
}

/// Reads the reports of steps, waiting for the device, until at most so many are pending.
void read_reports(Run& run, size_t max_left) {
  while (const auto arrived = run.reports.next(max_left)) {
    run.step->check_sums();
    const StepOutcome& outcome = arrived->report.outcome;
    if (outcome.skipped != 0) {
      count_skipped_step(run, *arrived);
      continue;
    }
    run.divergence.count_finite_step();
    run.reporting.gradient_norm = outcome.gradient_norm;
    IntervalSums& sums = run.reporting.interval;
    sums.loss += outcome.loss;
    sums.nll += outcome.nll;
    sums.target_tokens += arrived->of.target_tokens;
    sums.source_tokens += arrived->of.source_tokens;
    sums.flops += arrived->of.flops;
  }
}

/// Compares the bits of what is replicated on the ranks; at most once after a step.
void check_ranks(Run& run) {
  const int64_t step = run.state.step;
  if (std::exchange(run.saving.checked_step, step) == step) return;
  ParameterStore& store = run.model.store;
  const bool owned = run.optimizer->shard().is_part();
  // Before the owners send their masters: the copies with which the ranks compute.
  if (owned && store.compute_copy())
    check_replicas(run.context, run.communicator, step, {{"parameters in bf16", store.compute_copy()}});
  complete_masters(run);
  std::vector<Replica> parts = {{"parameters", store.values()}};
  if (!owned) {  // the others have one owner each
    const OptimizerState state = run.optimizer->state();
    parts.push_back({"first moments of Adam", state.m});
    parts.push_back({"second moments of Adam", state.v});
    if (state.average) parts.push_back({"moving average of the parameters", state.average});
  }
  check_replicas(run.context, run.communicator, step, parts);
}

/// The last checkpoint is on the disk.
void report_save(Run& run) {
  run.reporting.notify(&Observer::on_save,
                       SavedCheckpoint{run.saving.saved_step, run.saving.last_checkpoint});
}

/// Waits on all ranks, which exchange messages.
void wait_for_save(Run& run) {
  std::optional<CheckpointSaver>& saver = run.saving.saver;
  do {
    run.reporting.progress.heartbeat(run.state.step, "waiting for a checkpoint to be on the disk");
  } while (run.ranks.any(saver && !saver->wait(kLongestSilence)));
  if (saver ? saver->finish() : run.saving.saved_step >= 0) report_save(run);
}

/// Waits on all ranks for the scores of --valid-script; a stop ends the wait.
void wait_for_script(Run& run) {
  if (run.options.valid_script.empty()) return;
  ValidationScript* const script = run.validating.script;
  Progress& progress = run.reporting.progress;
  for (bool announced = false; true; announced = true) {
    const bool works = script != nullptr && script->works(kLongestSilence);
    double ranks[] = {works ? 1.0 : 0.0, stop_requested() ? 1.0 : 0.0};
    run.communicator.all_reduce_sum({ranks, 1, 2, 2, DType::kF64});
    if (script != nullptr) script->poll(run.state.step);
    if (ranks[0] == 0.0) return;
    if (run.agreed.stop_requested || ranks[1] > 0.0) {
      if (script != nullptr) script->stop();
      return progress.message("--valid-script is stopped, without its score");
    }
    if (!announced) progress.message("waiting for --valid-script");
    progress.heartbeat(run.state.step, "waiting for --valid-script");
  }
}

/// The state of the optimizer; on rank 0 of all elements.
OptimizerState whole_optimizer_state(Run& run) {
  const OptimizerState own = run.optimizer->state();
  const OptimizerShard& shard = run.optimizer->shard();
  if (!shard.is_part()) return own;
  const OptimizerState whole = run.saving.saver ? run.saving.saver->room() : OptimizerState{};
  shard.collect(run.communicator, own.m, whole.m);
  shard.collect(run.communicator, own.v, whole.v);
  if (own.average) shard.collect(run.communicator, own.average, whole.average);
  return whole;
}

void set_step(Run& run, int64_t step) {
  run.state.step = step;
  run.communicator.set_step(step);
  run.reporting.notify(&Observer::on_step, step);
}

/// Returns to the state after the previous step, on all ranks.
void roll_back_step(Run& run, const TrainingStep::Enqueued& enqueued) {
  const auto [begin, end] = run.step->share();
  run.reporting.progress.message(
      fmt::format("step {} is abandoned because of the stop, {} of {} micro-batches of this rank done; "
                  "the next start repeats it",
                  run.state.step, enqueued.micro_batches, end - begin));
  // Nothing else waits for the sums of this step: no rank may leave while the device of another is at them.
  synchronize(run.context);
  run.step->check_sums();
  run.communicator.barrier();
  set_step(run, run.state.step - 1);
  read_reports(run, 0);
  if (run.reporting.interval.seconds > 0.0) log_interval(run);
}

void end_stage(Run& run, int64_t stage) {
  run.reporting.notify(&Observer::on_stage_end, record_stage_end(run.batches, stage, run.state));
}

/// Adds the signatures of the scores, if they were not logged before or are others now.
void add_signatures(Run& run, ValidationMetrics& metrics) {
  const ValidationScorer& scorer = run.validating.validation->scorer();
  const std::string bleu = metrics.has_bleu ? scorer.signature(data::MetricKind::kBleu) : "";
  const std::string chrf = metrics.has_chrf ? scorer.signature(data::MetricKind::kChrf) : "";
  const std::string both = bleu + (bleu.empty() || chrf.empty() ? "" : " ") + chrf;
  if (both == run.state.valid_signature) return;
  run.state.valid_signature = both;
  for (const auto& [name, signature] : {std::pair("BLEU", bleu), std::pair("chrF", chrf)}) {
    if (!signature.empty())
      run.reporting.progress.message(fmt::format("{} of validations: {}", name, signature));
  }
  metrics.signature = bleu;
  metrics.chrf_signature = chrf;
}

}  // namespace

data::GlobalBatch begin_step(Run& run) {
  if (run.saving.saver && run.saving.saver->check()) report_save(run);
  if (run.validating.script != nullptr) run.validating.script->poll(run.state.step);
  run.clocks.step_begin = RunClocks::Clock::now();
  run.clocks.waited_before_step = run.communicator.waited_seconds();
  set_step(run, run.state.step + 1);
  if (measures_step(run)) run.context.profile().begin_step();
  const ProfileRange range(run.context, kBatchPhase);
  return run.feed->next_step();
}

bool compute_step(Run& run, const data::GlobalBatch& batch) {
  const double learning_rate = run.schedule.learning_rate(run.state.step, run.state.plateau_factor);
  const TrainingStep::Enqueued enqueued = run.step->enqueue(
      *run.feed, learning_rate, [&run] { return run.ranks.stop_requested_anywhere(); },
      [&run](int64_t done, int64_t of) {
        if (done == of) return;
        run.reporting.progress.heartbeat(run.state.step,
                                         fmt::format("micro-batch {} of {} of this rank", done, of));
      });
  const double max_minutes = run.options.max_minutes;
  run.agreed = run.ranks.agree({.out_of_time = run.communicator.rank() == 0 && max_minutes > 0.0 &&
                                               run.seconds() >= 60.0 * max_minutes,
                                .abandoned = enqueued.abandoned,
                                .flops = enqueued.flops});
  if (run.context.profile().measuring()) run.context.profile().end_step();
  if (run.agreed.abandoned) {
    roll_back_step(run, enqueued);
    return false;
  }
  run.reporting.whole_run.flops += run.agreed.flops;
  run.reporting.learning_rate = learning_rate;
  read_reports(run, StepReports::kMax - 1);
  run.reports.request(*run.optimizer, {.step = run.state.step,
                                       .target_tokens = batch.target_tokens,
                                       .source_tokens = batch.source_tokens,
                                       .flops = run.agreed.flops});
  return true;
}

void complete_step(Run& run, const data::GlobalBatch& batch) {
  TrainingState& state = run.state;
  const int64_t stage = state.position.mix.stage;
  state.position = batch.next;
  if (state.position.mix.stage != stage) end_stage(run, stage);
  state.target_tokens += batch.target_tokens;
  if (reports_are_due(run) || run.context.device() == Device::kCpu) read_reports(run, 0);
  RunClocks& clocks = run.clocks;
  const double seconds = std::chrono::duration<double>(RunClocks::Clock::now() - clocks.step_begin).count();
  clocks.own_seconds += seconds - (run.communicator.waited_seconds() - clocks.waited_before_step);
  run.reporting.interval.seconds += seconds;
  run.reporting.whole_run.seconds += seconds;
  run.reporting.whole_run.target_tokens += batch.target_tokens;
  state.elapsed_seconds = run.start.elapsed_seconds + run.seconds();
  if (log_is_due(run)) {
    run.check_environment();
    log_interval(run);
  } else if (run.reporting.progress.wants_line()) {
    run.reporting.progress.on_interval(run.interval_metrics());
  }
  if (replica_check_is_due(run)) check_ranks(run);
  if (digest_is_due(run)) report_digest(run);
}

void validate(Run& run) {
  TrainingState& state = run.state;
  const RunClocks::Clock::time_point begin = RunClocks::Clock::now();
  complete_masters(run);  // a search reads them
  exchange_with_average(run);
  auto measured = run.validating.validation->run(
      *run.model.transformer, run.model.store, run.model.ids, state.step,
      [&run] { run.reporting.progress.heartbeat(run.state.step, "validating"); });
  exchange_with_average(run);
  run.validating.validated_step = state.step;
  const bool was_pending = state.validation_pending != 0;
  state.validation_pending = measured ? 0 : 1;
  if (!measured) {
    run.agreed.stop_requested = true;
    run.reporting.progress.message(fmt::format(
        "validation at step {} is abandoned because of the stop; the next start repeats it", state.step));
    return;
  }
  ValidationMetrics& metrics = measured->metrics;
  const double metric = metrics.of(run.options.valid_metric);
  // Others, where a start ended, must not change what a later start does.
  const bool is_due = validation_is_due(run);
  if (is_due) count_validation(run.options, metric, state);
  metrics.is_best = take_best(run.options, metric, state);
  add_signatures(run, metrics);
  if (run.communicator.rank() == 0 && run.options.keeps_translations())
    write_valid_outputs(run.options.model_dir, state.step, run.corpus.valid_sets, measured->translations);
  metrics.seconds = std::chrono::duration<double>(RunClocks::Clock::now() - begin).count();
  run.reporting.notify(&Observer::on_validation, metrics);
  if (is_due) {
    if (const auto drop = count_for_plateau(run.options, metric, state))
      run.reporting.notify(&Observer::on_rate_drop, *drop);
  }
  if (is_due && stage_has_stalled(run.batches, state)) {
    const int64_t stage = state.position.mix.stage;
    state.position = run.batches.after_stage(state.position);
    end_stage(run, stage);
    run.feed->restart({state.position, state.step + 1});
  }
  if (metrics.is_best) {
    save(run, CheckpointSaver::Best{.metric = run.options.valid_metric,
                                    .value = metric,
                                    .signature = signature_of_metric(run.options)});
  } else if (was_pending) {
    save(run);  // the checkpoint of this step says that its validation is pending
  }
}

void save(Run& run, const std::optional<CheckpointSaver::Best>& best) {
  run.state.elapsed_seconds = run.start.elapsed_seconds + run.seconds();
  run.check_environment();
  check_ranks(run);  // a checkpoint requires a state on which all ranks agree
  wait_for_save(run);
  const OptimizerState optimizer = whole_optimizer_state(run);
  std::string path;
  if (run.saving.saver) {
    path = run.saving.saver->save(run.state, optimizer,
                                  fmt::format("step {} of: {}", run.state.step, run.start.command), best);
  }
  run.saving.last_checkpoint = run.communicator.broadcast(path, 0);
  run.saving.saved_step = run.state.step;
}

TrainResult finish(Run& run) {
  const TrainingState& state = run.state;
  const bool early = run.agreed.stop_requested && state.step < run.options.max_steps;
  if (run.validates() && !early && state.step > run.start.step &&
      run.validating.validated_step != state.step) {
    validate(run);
  }
  if (run.saving.saved_step != state.step) save(run);
  wait_for_save(run);
  run.check_environment();
  wait_for_script(run);
  const bool stopped = run.agreed.stop_requested && (early || state.validation_pending != 0);
  TrainResult result = {.end = stopped ? TrainEnd::kStoppedOnRequest : TrainEnd::kDone,
                        .step = state.step,
                        .best_step = state.best_step,
                        .best_metric = state.best_metric,
                        .valid_metric = metric_of(state.valid_metric),
                        .last_checkpoint = run.saving.last_checkpoint};
  const IntervalSums& whole = run.reporting.whole_run;
  if (whole.seconds > 0.0) {
    result.target_tokens_per_second = static_cast<double>(whole.target_tokens) / whole.seconds;
    result.flops_per_second = whole.flops / whole.seconds;
  }
  double memory = static_cast<double>(peak_memory_bytes());
  run.communicator.all_reduce_sum({&memory, 1, 1, 1, DType::kF64});
  result.peak_memory_bytes = static_cast<int64_t>(memory);
  if (!run.start.nothing_to_do) {
    run.reporting.notify(&Observer::on_end,
                         RunEnd{.stopped = stopped,
                                .step = state.step,
                                .elapsed_seconds = state.elapsed_seconds,
                                .last_checkpoint = result.last_checkpoint,
                                .target_tokens_per_second = result.target_tokens_per_second,
                                .flops_per_second = result.flops_per_second,
                                .peak_memory_bytes = result.peak_memory_bytes,
                                .ranks = run.communicator.size()});
  }
  if (run.options.profile)
    result.profile = train_profile(run.context, run.step->measured_flops(), run.options.precision);
  return result;
}

TrainResult train(Context& context, Communicator& communicator, const TrainOptions& options,
                  const std::string& command, Observer* observer) {
  std::unique_ptr<Run> run = make_run(context, communicator, options, command, observer);
  try {
    // Section 5 of the paper, on batches of sentence pairs that the ranks share. Steps are enqueued on a
    // device without waiting for it: compute_step() enqueues, and the result of a step is read later.
    if (run->validation_is_pending()) validate(*run);
    while (run->training_continues()) {
      const data::GlobalBatch batch = begin_step(*run);
      if (!compute_step(*run, batch)) break;
      complete_step(*run, batch);
      if (validation_is_due(*run)) validate(*run);
      if (save_is_due(*run)) save(*run);
    }
    return finish(*run);
  } catch (...) {
    // Otherwise the destructor would wait for a thread that hangs in the file system, or free its memory.
    if (run->saving.saver && !run->saving.saver->settle()) static_cast<void>(run.release());
    throw;
  }
}

}  // namespace ventris
