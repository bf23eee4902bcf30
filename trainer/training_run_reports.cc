// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backend/device/device.h"
#include "backend/device/transfer.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/observers/run_status.h"
#include "trainer/observers/stragglers.h"
#include "trainer/observers/tensorboard.h"
#include "trainer/observers/validation_script.h"
#include "trainer/program_version.h"
#include "trainer/stages.h"
#include "trainer/text.h"
#include "trainer/training_run.h"

namespace ventris {

void TrainingRun::open_logs() {
  const int64_t last_step = last_checkpoint_.empty() ? -1 : state_.step;
  check_surroundings();
  metrics_.emplace(options_.model_dir, last_step, validation_is_pending());
  if (nothing_to_do_) return;
  if (!options_.valid_script.empty())
    script_ = std::make_shared<ValidationScript>(options_, *metrics_, progress_);
  if (last_step >= 0) metrics_->write_resumed(resumed_start());
  if (!options_.tensorboard) return;
  tensorboard_ = std::make_shared<TensorBoardLog>(options_.model_dir);
  metrics_->set_listener([this](const nlohmann::ordered_json& line) { tensorboard_->write_line(line); });
}

/// Describes this start, and how the previous one ended: its status.json has not been replaced yet.
ResumedStart TrainingRun::resumed_start() const {
  constexpr size_t kMaxMessageBytes = 2000;  // so that a line of the log stays far below kMaxJsonBytes
  const std::vector<int> hosts = communicator_.hosts();
  ResumedStart start = {.step = state_.step,
                        .checkpoint = data::without_folder(last_checkpoint_),
                        .program = program_name_and_version(),
                        .device = context_.device() == Device::kCuda ? "cuda" : "cpu",
                        .ranks = communicator_.size(),
                        .hosts = static_cast<int>(std::set<int>(hosts.begin(), hosts.end()).size()),
                        .lost_steps = std::max<int64_t>(metrics_->last_dropped() - state_.step, 0)};
  const std::optional<StatusRecord> before = read_status(options_.model_dir);
  if (!before) return start;
  // This start holds the folder, so no other process runs there.
  const bool was_killed = before->state == "running";
  start.previous_state = was_killed ? "killed" : before->state;
  start.previous_message = before->message.substr(0, kMaxMessageBytes);
  if (was_killed) return start;
  start.previous_exit_code = before->exit_code;
  // The step of a failure may not have been completed.
  if (before->state == "failed")
    start.lost_steps = std::max(start.lost_steps, before->step - 1 - state_.step);
  return start;
}

void TrainingRun::complete_step(const data::GlobalBatch& batch) {
  const int64_t stage = state_.position.mix.stage;
  state_.position = batch.next;
  if (state_.position.mix.stage != stage)
    record_stage_end(batches_, stage, state_, metrics_ ? &*metrics_ : nullptr, progress_);
  state_.target_tokens += batch.target_tokens;
  if (reports_are_due() || context_.device() == Device::kCpu) read_reports(0);
  const double seconds = std::chrono::duration<double>(Clock::now() - step_begin_).count();
  own_seconds_ += seconds - (communicator_.waited_seconds() - waited_before_);
  interval_.seconds += seconds;
  whole_run_.seconds += seconds;
  whole_run_.target_tokens += batch.target_tokens;
  state_.elapsed_seconds = elapsed_before_ + seconds_of_run();
  if (log_is_due()) {
    check_surroundings();
    log_interval();
  } else if (progress_.wants_line()) {
    progress_.line(interval_metrics(), seconds_left());
  }
  if (rank_check_is_due()) check_ranks();
  if (digest_is_due()) report_digest();
}

void TrainingRun::log_interval() {
  const IntervalMetrics metrics = interval_metrics();
  if (metrics_) metrics_->write(metrics);
  progress_.line(metrics, seconds_left());
  interval_ = {};
  if (communicator_.size() == 1 || shards_ % communicator_.size() != 0) return;  // unequal work
  // The host does not see for how long devices wait for each other.
  const bool on_host = context_.device() == Device::kCpu;
  const double seconds = on_host ? std::exchange(own_seconds_, 0.0) : step_->own_seconds();
  const std::string straggler =
      describe_straggler(gather_rank_times(communicator_, seconds), on_host ? kLeastHostMedian : 0.0);
  if (!straggler.empty()) progress_.message(straggler);
}

bool TrainingRun::digest_is_due() const {
  return options_.digest_every > 0 && state_.step % options_.digest_every == 0;
}

void TrainingRun::report_digest() {
  complete_masters();
  if (communicator_.rank() != 0) return;
  const std::string digest_now = parameter_digest(context_, store_);
  metrics_->write_digest(state_.step, digest_now);
  progress_.message(fmt::format("step {} digest {}", state_.step, digest_now));
}

std::string TrainingRun::digest() {
  read_reports(0);  // a failed sum over the ranks is detected first
  complete_masters();
  return parameter_digest(context_, store_);
}

bool TrainingRun::log_is_due() const {
  return state_.step % options_.log_every == 0 || !goes_on();
}

bool TrainingRun::reports_are_due() const {
  return log_is_due() || digest_is_due() || rank_check_is_due() || validation_is_due() || save_is_due();
}

void TrainingRun::read_reports(size_t max_left) {
  while (const auto arrived = reports_->next(max_left)) {
    step_->check_sums();
    count_step(*arrived);
  }
}

void TrainingRun::count_step(const StepReports::Arrived& arrived) {
  const StepOutcome& outcome = arrived.report.outcome;
  if (outcome.skipped != 0) return count_skipped_step(arrived);
  divergence_.count_finite_step();
  last_gradient_norm_ = outcome.gradient_norm;
  interval_.loss += outcome.loss;
  interval_.nll += outcome.nll;
  interval_.target_tokens += arrived.of.target_tokens;
  interval_.source_tokens += arrived.of.source_tokens;
  interval_.flops += arrived.of.flops;
}

void TrainingRun::count_skipped_step(const StepReports::Arrived& arrived) {
  NotFinitePlaces places = arrived.report.not_finite;
  if (optimizer_->shard().is_part()) places = places_on_all_ranks(communicator_, places);
  const std::string place = describe_not_finite(store_, places);
  divergence_.count_skipped_step(arrived.of.step, place);
  if (metrics_) metrics_->write_skipped(arrived.of.step, place);
  progress_.warning(fmt::format("step {} is skipped: NaN or Inf, first seen in {}", arrived.of.step,
                                divergence_.first_seen()));
  check_divergence();
}

void TrainingRun::check_divergence() {
  if (!divergence_.has_diverged()) return;
  // All ranks reach this point in the same step. None leaves while another waits for sums with it.
  while (reports_->next(0)) {
  }
  communicator_.barrier();
  last_checkpoint_ = communicator_.broadcast(saver_ ? saver_->last_verified() : "", 0);
  divergence_.fail(last_checkpoint_, options_);
}

IntervalMetrics TrainingRun::interval_metrics() const {
  IntervalMetrics metrics = {.step = state_.step,
                             .epoch = epochs(),
                             .sums = interval_,
                             .learning_rate = last_learning_rate_,
                             .gradient_norm = last_gradient_norm_,
                             .target_tokens = state_.target_tokens,
                             .elapsed_seconds = state_.elapsed_seconds,
                             .skipped_steps = state_.skipped_steps};
  if (context_.device() == Device::kCuda) {
    const double device_seconds = interval_.seconds * communicator_.size();
    metrics.device = {.flops_per_second = device_seconds > 0.0 ? interval_.flops / device_seconds : 0.0,
                      .memory_bytes = cuda_memory().used};
  }
  if (batches_.mix().empty()) return metrics;
  const data::MixPosition& position = state_.position.mix;
  const int64_t stage = position.steps == 0 && position.stage > 0 ? position.stage - 1 : position.stage;
  metrics.stage = batches_.mix().stages[static_cast<size_t>(stage)].name;
  const std::vector<int64_t> drawn = batches_.drawn(state_.position);
  for (size_t part = 0; part < drawn.size(); ++part)
    metrics.pairs.emplace_back(corpus_.parts()[part].name, drawn[part]);
  return metrics;
}

double TrainingRun::seconds_of_run() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

double TrainingRun::epochs() const {
  return static_cast<double>(state_.position.epoch) +
         static_cast<double>(state_.position.index) / static_cast<double>(corpus_.train().size());
}

double TrainingRun::seconds_left() const {
  return ventris::seconds_left(options_, {.first_step = first_step_,
                                          .step = state_.step,
                                          .first_epoch = first_epoch_,
                                          .epoch = epochs(),
                                          .seconds = seconds_of_run()});
}

}  // namespace ventris
