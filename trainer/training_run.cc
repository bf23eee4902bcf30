// SPDX-License-Identifier: Apache-2.0
#include "trainer/training_run.h"

#include <sys/resource.h>

#include <cmath>

#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/profile.h"
#include "backend/device/transfer.h"
#include "backend/ops/cast.h"
#include "backend/ops/gemm_choices.h"
#include "comm/affinity.h"
#include "trainer/agreement.h"
#include "trainer/checkpoint/hold_run_folder.h"
#include "trainer/checkpoint/model_files.h"
#include "trainer/checkpoint/replicas.h"
#include "trainer/checkpoint/resume_signature.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/frozen_parameters.h"
#include "trainer/observers/progress_text.h"
#include "trainer/observers/run_status.h"
#include "trainer/observers/start_report.h"
#include "trainer/observers/tensorboard.h"
#include "trainer/observers/validation_script.h"
#include "trainer/product_choices.h"
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

// Interval of the messages of rank 0 to the others while it waits for a disk.
constexpr std::chrono::milliseconds kLongestSilence{50};

// Steps that a profile measures: none of the first ones of a run, in which memory grows and algorithms are
// chosen; on CUDA few, as they are not replayed.
constexpr int64_t kFirstMeasuredStep = 3;
constexpr int64_t kCudaMeasuredSteps = 10;

// Steps between comparisons of the ranks, in addition to those before saves.
constexpr int64_t kCheckedSteps = 1000;

// The largest resident set of this process so far.
int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

TrainingRun::TrainingRun(Context& context, Communicator& communicator, const TrainOptions& options,
                         const std::string& command, RunStatus* status)
    : context_(context),
      communicator_(communicator),
      options_(checked_options(options, context.device())),
      command_(command),
      status_(status),
      progress_(communicator.rank() == 0, options_),
      corpus_watch_(options.corpus),
      corpus_(options.corpus),
      folder_lock_(hold_run_folder(communicator, options_.model_dir, progress_)),
      resume_point_(
          find_resume_point(communicator, options_, folder_lock_ && folder_lock_->held(), progress_)),
      shards_(resolved_shards(options, resume_point_, communicator.size(), context.device(),
                              longest_rows(corpus_))),
      batches_(corpus_.train(), corpus_.parts(),
               {.source_tokens = options.batch_source_tokens,
                .target_tokens = options.batch_target_tokens,
                .shards = shards_,
                .seed = options.seed,
                .mix = resolved_mix(options, resume_point_, corpus_),
                .sampled = sampled_text(options, corpus_)}),
      schedule_(schedule_of(options)),
      valid_sets_(corpus_) {
  options_.logical_shards = shards_;
  options_.mix = data::to_text(batches_.mix());
  options_.precision = resolved_precision(options.precision, resume_point_.precision, context.device());
  const std::vector<std::string> references = valid_sets_.first_references();
  const std::string choices[] = {resolve_begin_embedding(options_, resume_point_.begin_embedding, corpus_),
                                 resolve_valid_tokenizer(options_, resume_point_.valid_metric, references)};
  resolve_valid_metric(options_, resume_point_.valid_metric, references);
  resolve_tie(options_, resume_point_.tie, corpus_);
  complete_model(options_.model, options_, corpus_);
  if (!options_.valid_script.empty() && valid_sets_.empty()) {
    fail(
        ExitCode::kBadConfiguration,
        "--valid-script needs validations, but {} has no validation pairs; 'ventris prepare --valid-sets' adds "
        "them",
        options_.corpus);
  }
  check_schedule_is_validated(options_, !valid_sets_.empty());
  check_same_run_on_all_ranks(communicator_, options_, corpus_);
  state_.corpus_digest = corpus_.digest();
  state_.resume_signature = resume_signature(options_);
  state_.valid_metric = recorded_metric(options_);
  state_.logical_shards = shards_;
  state_.mix.plan = options_.mix;
  state_.environment = run_environment(communicator_);

  InitialValues initial(context_, communicator_, options_, corpus_, !resume_point_.path.empty(), progress_);
  make_model(initial);
  resume(context_, communicator_, resume_point_, options_, store_, *optimizer_, state_, progress_);
  last_checkpoint_ = resume_point_.path;
  if (last_checkpoint_.empty()) state_.initial_updates = initial.take_moments(store_, *optimizer_);
  optimizer_->set_updates(state_.initial_updates + state_.step - state_.skipped_steps);
  if (!last_checkpoint_.empty()) {
    saved_step_ = state_.step;
    nothing_to_do_ = !goes_on() && !validation_is_pending();
    progress_.message(nothing_to_do_
                          ? fmt::format("nothing to do: {} {}", last_checkpoint_, what_is_done())
                          : fmt::format("resuming from {} at step {}", last_checkpoint_, state_.step));
  }
  for (const std::string& choice : choices) {
    if (!nothing_to_do_ && !choice.empty()) progress_.message(choice);
  }
  if (communicator_.rank() == 0) {
    open_logs();
    forget_best_that_is_gone(options_.model_dir);
    if (options_.keeps_translations())
      remove_later_valid_outputs(options_.model_dir, last_checkpoint_.empty() ? -1 : state_.step);
    saver_.emplace(context_, store_, optimizer_->has_average(),
                   CheckpointSaver::Run{.model_dir = options_.model_dir,
                                        .config = options_.model,
                                        .tokenizers = corpus_.tokenizers().models(),
                                        .keep = options_.keep_checkpoints,
                                        .limit_seconds = save_timeout(),
                                        .lower_rate = half_the_rate(options_),
                                        .begun_from = resume_point_.path,
                                        .folder = folder_lock_.get()});
  }
  // Not before: a refused start leaves the files of the previous one.
  if (!nothing_to_do_) describe_run();
  if (status_ != nullptr) {
    status_->begin({options_.model_dir, host_name(), communicator_.rank(), communicator_.size()}, state_.step,
                   last_checkpoint_);
  }
  elapsed_before_ = state_.elapsed_seconds;
  first_step_ = state_.step;
  first_epoch_ = epochs();
  feed_.emplace(context_, corpus_, batches_, options_.model, training_capacity(batches_), step_->share(),
                BatchFeed::Start{state_.position, state_.step + 1});
  if (!nothing_to_do_) {
    state_.product_choices = settle_product_choices(
        context_, communicator_, state_.product_choices, [this] { rehearse(); }, progress_);
  }
  if (options_.profile) context_.profile().clear();
  if (!nothing_to_do_) {
    report_start(progress_, communicator_, context_, options_,
                 describe_precision(options.precision, resume_point_.precision, context.device()), corpus_,
                 valid_sets_, store_, state_.step,
                 schedule_.learning_rate(state_.step + 1, state_.plateau_factor));
  }
  double asked = stop_requested() ? 1.0 : 0.0;  // during the setup
  communicator_.all_reduce_sum({&asked, 1, 1, 1, DType::kF64});
  stop_ = asked > 0.0;
}

void TrainingRun::make_model(InitialValues& initial) {
  use_tf32(context_, options_.precision == Precision::kTf32);
  ids_ = declare_transformer(options_.model, store_);
  freeze_parameters(options_.freeze, store_);
  store_.allocate(context_.device(), dtype_of(options_.precision), /*gradients=*/true);
  store_.initialize(context_, options_.seed);
  initial.take_parameters(ids_, store_);
  store_.refresh_compute_copy(context_);
  optimizer_.emplace(context_, store_, options_, communicator_.rank(), communicator_.size());
  const MicroBatchCapacity capacity = model_capacity(batches_, corpus_, context_.device());
  transformer_.emplace(context_, options_.model, store_, ids_, capacity, options_.kept_activations());
  reports_.emplace(context_);
  step_.emplace(context_, communicator_, options_, shards_, store_, *transformer_, *optimizer_);
  if (!valid_sets_.empty()) {
    validation_.emplace(context_, communicator_, corpus_, valid_sets_, options_,
                        validation_rows_of(context_.device()));
  }
}

/// Computes the first micro-batch of the next step, and forgets the result.
void TrainingRun::rehearse() {
  BatchFeed feed(context_, corpus_, batches_, options_.model, training_capacity(batches_), {0, 1},
                 // The run may resume only to validate.
                 BatchFeed::Start{batches_.ended(state_.position) ? data::DataPosition{} : state_.position,
                                  state_.step + 1});
  feed.next_step();
  transformer_->forward_backward(feed.next_micro_batch().batch, options_.seed, {});
  fill_zero(context_, store_.gradients());
  fill_zero(context_, transformer_->loss_sums());
  synchronize(context_);
}

void TrainingRun::describe_run() {
  if (communicator_.rank() != 0) return;
  const TrainOptions recorded = report_changed_options(progress_, options_, !last_checkpoint_.empty());
  write_file_atomically(path_of_config(options_.model_dir), config_json(recorded, state_.environment) + "\n");
  write_file_atomically(options_.model_dir + "/command.txt", command_ + "\n");
}

bool TrainingRun::goes_on() const {
  return !stop_ && !out_of_time_ && state_.step < options_.max_steps &&
         (options_.max_epochs == 0 || state_.position.epoch < options_.max_epochs) &&
         (options_.patience == 0 || state_.validations_without_improvement < options_.patience) &&
         !batches_.ended(state_.position);
}

std::string TrainingRun::what_is_done() const {
  if (state_.step >= options_.max_steps) return fmt::format("has all {} steps", options_.max_steps);
  if (options_.max_epochs > 0 && state_.position.epoch >= options_.max_epochs)
    return fmt::format("has all {}", counted(options_.max_epochs, "epoch"));
  if (batches_.ended(state_.position)) return "has all stages of its plan";
  return fmt::format("has seen {} without a better one", counted(options_.patience, "validation"));
}

data::GlobalBatch TrainingRun::begin_step() {
  if (saver_ && saver_->check()) record_save();
  if (script_) script_->log_arrived(state_.step);
  step_begin_ = Clock::now();
  waited_before_ = communicator_.waited_seconds();
  communicator_.set_step(++state_.step);
  if (status_ != nullptr) status_->reach(state_.step);
  if (measures_step()) context_.profile().begin_step();
  const ProfileRange range(context_, kBatchPhase);
  return feed_->next_step();
}

bool TrainingRun::measures_step() const {
  const int64_t later = state_.step - first_step_ - kFirstMeasuredStep;
  return options_.profile && later >= 0 &&
         (context_.device() == Device::kCpu || later % kCudaMeasuredSteps == 0);
}

bool TrainingRun::compute_step(const data::GlobalBatch& batch) {
  const double learning_rate = schedule_.learning_rate(state_.step, state_.plateau_factor);
  TrainingStep::Enqueued step = step_->enqueue(
      *feed_, learning_rate, [this] { return stop_is_asked_for(); },
      [this](int64_t done, int64_t of) {
        if (done == of) return;
        progress_.goes_on(state_.step, fmt::format("micro-batch {} of {} of this rank", done, of));
      });
  const bool abandoned = agree_with_all_ranks(step);
  if (context_.profile().measuring()) context_.profile().end_step();
  if (abandoned) {
    take_step_back(step);
    return false;
  }
  last_learning_rate_ = learning_rate;
  read_reports(StepReports::kMax - 1);
  reports_->request(*optimizer_, {.step = state_.step,
                                  .target_tokens = batch.target_tokens,
                                  .source_tokens = batch.source_tokens,
                                  .flops = step.flops});
  return true;
}

bool TrainingRun::stop_is_asked_for() {
  if (stop_requested() && !told_stop_) {
    told_stop_ = true;
    communicator_.pass_stop_on();
  }
  return told_stop_ || communicator_.stop_was_passed_on();
}

bool TrainingRun::agree_with_all_ranks(TrainingStep::Enqueued& step) {
  const bool late = communicator_.rank() == 0 && options_.max_minutes > 0.0 &&
                    seconds_of_run() >= 60.0 * options_.max_minutes;
  double totals[5] = {stop_requested() ? 1.0 : 0.0, late ? 1.0 : 0.0, step.flops, step.abandoned ? 1.0 : 0.0,
                      told_stop_ ? 1.0 : 0.0};
  communicator_.all_reduce_sum({totals, 1, 5, 5, DType::kF64});
  stop_ = totals[0] > 0.0;
  out_of_time_ = totals[1] > 0.0;
  communicator_.receive_stops(static_cast<int>(totals[4]));
  const bool abandoned = totals[3] > 0.0;
  step.flops = totals[2];
  if (!abandoned) flops_ += step.flops;
  return abandoned;
}

void TrainingRun::take_step_back(const TrainingStep::Enqueued& step) {
  const auto [begin, end] = step_->share();
  progress_.message(
      fmt::format("step {} is abandoned because of the stop, {} of {} micro-batches of this rank done; "
                  "the next start repeats it",
                  state_.step, step.micro_batches, end - begin));
  // Nothing else waits for the sums of this step: no rank may leave while the device of another is at them.
  synchronize(context_);
  step_->check_sums();
  communicator_.barrier();
  communicator_.set_step(--state_.step);
  if (status_ != nullptr) status_->reach(state_.step);
  read_reports(0);
  if (interval_.seconds > 0.0) log_interval();
}

/// In f32 every step shares them.
void TrainingRun::complete_masters() {
  if (dtype_of(options_.precision) != DType::kF32) step_->share_masters();
}

bool TrainingRun::save_is_due() const {
  // The last state is saved by finish(), after its validation: a restarted program takes a checkpoint of the
  // last step as complete.
  return options_.save_every > 0 && state_.step % options_.save_every == 0 && saved_step_ != state_.step &&
         goes_on();
}

bool TrainingRun::rank_check_is_due() const {
  return communicator_.size() > 1 && state_.step % kCheckedSteps == 0;
}

void TrainingRun::check_ranks() {
  if (checked_step_ == state_.step) return;
  checked_step_ = state_.step;
  // Before the owners send their masters: the copies with which the ranks compute.
  if (optimizer_->shard().is_part() && store_.compute_copy())
    check_replicas(context_, communicator_, state_.step, {{"parameters in bf16", store_.compute_copy()}});
  complete_masters();
  std::vector<Replica> parts = {{"parameters", store_.values()}};
  if (!optimizer_->shard().is_part()) {  // the others have one owner each
    const OptimizerState state = optimizer_->state();
    parts.push_back({"first moments of Adam", state.m});
    parts.push_back({"second moments of Adam", state.v});
    if (state.average) parts.push_back({"moving average of the parameters", state.average});
  }
  check_replicas(context_, communicator_, state_.step, parts);
}

void TrainingRun::check_surroundings() const {
  corpus_watch_.check();
  if (folder_lock_) folder_lock_->check();
}

void TrainingRun::save(const std::optional<CheckpointSaver::Best>& best) {
  state_.elapsed_seconds = elapsed_before_ + seconds_of_run();
  check_surroundings();
  check_ranks();  // a checkpoint requires a state on which all ranks agree
  wait_for_save();
  const OptimizerState optimizer = whole_state();
  std::string path;
  if (saver_)
    path = saver_->save(state_, optimizer, fmt::format("step {} of: {}", state_.step, command_), best);
  last_checkpoint_ = communicator_.broadcast(path, 0);
  saved_step_ = state_.step;
}

OptimizerState TrainingRun::whole_state() {
  const OptimizerState own = optimizer_->state();
  const OptimizerShard& shard = optimizer_->shard();
  if (!shard.is_part()) return own;
  const OptimizerState whole = saver_ ? saver_->room() : OptimizerState{};
  shard.collect(communicator_, own.m, whole.m);
  shard.collect(communicator_, own.v, whole.v);
  if (own.average) shard.collect(communicator_, own.average, whole.average);
  return whole;
}

void TrainingRun::wait_for_save() {
  for (double waits = 1.0; waits > 0.0;) {
    progress_.goes_on(state_.step, "waiting for a checkpoint to be on the disk");
    waits = saver_ && !saver_->wait(kLongestSilence) ? 1.0 : 0.0;
    communicator_.all_reduce_sum({&waits, 1, 1, 1, DType::kF64});
  }
  if (saver_ ? saver_->finish() : saved_step_ >= 0) record_save();
}

bool TrainingRun::settle() {
  return !saver_ || saver_->settle();
}

void TrainingRun::record_save() {
  if (status_ != nullptr) status_->saved(saved_step_, last_checkpoint_);
}

void TrainingRun::wait_for_script() {
  if (options_.valid_script.empty()) return;
  for (bool told = false; true; told = true) {
    double totals[2] = {script_ && script_->works(kLongestSilence) ? 1.0 : 0.0, stop_requested() ? 1.0 : 0.0};
    communicator_.all_reduce_sum({totals, 1, 2, 2, DType::kF64});
    if (script_) script_->log_arrived(state_.step);
    if (totals[0] == 0.0) return;
    if (stop_ || totals[1] > 0.0) {
      if (script_) script_->stop();
      return progress_.message("--valid-script is stopped, without its score");
    }
    if (!told) progress_.message("waiting for --valid-script");
    progress_.goes_on(state_.step, "waiting for --valid-script");
  }
}

TrainResult TrainingRun::finish() {
  const bool early = stop_ && state_.step < options_.max_steps;
  const bool validates = validation_ && options_.valid_every > 0 && !early && state_.step > first_step_;
  if (validates && validated_step_ != state_.step) validate();
  if (saved_step_ != state_.step) save();
  wait_for_save();
  check_surroundings();
  wait_for_script();
  const bool stopped = stop_ && (early || state_.validation_pending != 0);
  if (!nothing_to_do_) {
    const char* how = stopped ? "stopped on request" : "done";
    progress_.message(fmt::format("{} at step {} after {}, saved in {}", how, state_.step,
                                  duration_text(state_.elapsed_seconds), readable(last_checkpoint_)));
  }
  TrainResult result = {.end = stopped ? TrainEnd::kStoppedOnRequest : TrainEnd::kDone,
                        .step = state_.step,
                        .best_step = state_.best_step,
                        .best_metric = state_.best_metric,
                        .valid_metric = metric_of(state_.valid_metric),
                        .last_checkpoint = last_checkpoint_};
  if (whole_run_.seconds > 0.0) {
    result.target_tokens_per_second = static_cast<double>(whole_run_.target_tokens) / whole_run_.seconds;
    result.flops_per_second = flops_ / whole_run_.seconds;
  }
  double memory = static_cast<double>(peak_memory_bytes());
  communicator_.all_reduce_sum({&memory, 1, 1, 1, DType::kF64});
  result.peak_memory_bytes = static_cast<int64_t>(memory);
  if (!nothing_to_do_) {
    progress_.message(
        fmt::format("{:.0f} target tokens/s, {:.1f} GFLOP/s of the model, peak memory {} MiB on {}",
                    result.target_tokens_per_second, 1e-9 * result.flops_per_second,
                    result.peak_memory_bytes >> 20, counted(communicator_.size(), "rank")));
  }
  if (options_.profile) result.profile = train_profile(context_, step_->measured_flops(), options_.precision);
  return result;
}

}  // namespace ventris
