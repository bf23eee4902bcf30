// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/progress.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>

#include "trainer/observers/live_line.h"
#include "trainer/observers/progress_text.h"
#include "trainer/signals.h"
#include "trainer/text.h"
#include "trainer/train_options.h"

namespace ventris {

double seconds_left(const TrainOptions& options, const RunProgress& run) {
  const auto steps = static_cast<double>(std::max<int64_t>(1, run.step - run.first_step));
  double left = run.seconds / steps * static_cast<double>(options.max_steps - run.step);
  const double epochs = run.epoch - run.first_epoch;
  if (options.max_epochs > 0 && epochs > 0.0)
    left = std::min(left, run.seconds / epochs * (static_cast<double>(options.max_epochs) - run.epoch));
  if (options.max_minutes > 0.0) left = std::min(left, 60.0 * options.max_minutes - run.seconds);
  return left;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLiveSeconds = 0.5;  // between two texts of the live line

}  // namespace

struct Progress::Impl {
  const bool speaks;
  const int64_t max_steps;
  const bool smooths;
  const double log_seconds;
  mutable std::mutex mutex;  // of the other members: a thread reports a stop while another trains
  LiveLine live;
  Clock::time_point last_word = Clock::now();  // time of the last message

  Impl(bool is_first, const TrainOptions& options, double seconds)
      : speaks(is_first),
        max_steps(options.max_steps),
        smooths(options.model.label_smoothing > 0.0F),
        log_seconds(seconds) {}
  bool is_silent_for(double seconds) const {
    const std::lock_guard lock(mutex);
    return speaks && Clock::now() - last_word >= std::chrono::duration<double>(seconds);
  }
  void say(const std::string& text) {
    if (!speaks) return;
    const std::lock_guard lock(mutex);
    const std::string line =
        fmt::format("{:%Y-%m-%d %H:%M:%S}  {}\n", fmt::localtime(std::time(nullptr)), readable_lines(text));
    live.clear();
    std::fwrite(line.data(), 1, line.size(), stderr);
    last_word = Clock::now();
  }
  /// `text` on the live line, or the short one if that is narrower; elsewhere as a message.
  void show(const std::string& text, const std::string& short_text) {
    if (!live.is_possible()) return say(text);
    if (!speaks) return;
    const std::lock_guard lock(mutex);
    const size_t columns = live.columns();
    live.show(columns == 0 || text.size() < columns ? text : short_text);
    last_word = Clock::now();
  }
  // The last: it uses the others.
  const StopNotice stop_notice{[this](int signal) { say(stop_text(signal)); }};
};

Progress::Progress(bool speaks, const TrainOptions& options, double log_seconds)
    : impl_(std::make_unique<Impl>(speaks, options, log_seconds)) {}

Progress::~Progress() {
  const std::lock_guard lock(impl_->mutex);
  impl_->live.leave();
}

bool Progress::wants_line() const {
  return impl_->is_silent_for(impl_->live.is_possible() ? kLiveSeconds : impl_->log_seconds);
}

void Progress::on_interval(const IntervalMetrics& metrics) {
  impl_->show(progress_text(metrics, impl_->max_steps, metrics.seconds_left, impl_->smooths),
              short_progress_text(metrics, impl_->max_steps, metrics.seconds_left));
}

void Progress::heartbeat(int64_t step, const std::string& what) {
  if (!impl_->is_silent_for(impl_->log_seconds)) return;
  const std::string text = fmt::format("step {}/{}  {}", step, impl_->max_steps, what);
  impl_->show(text, text);
}

void Progress::on_skipped_step(const SkippedStep& skipped) {
  warning(fmt::format("step {} is skipped: NaN or Inf, first seen in {}", skipped.step, skipped.first_seen));
}

void Progress::on_digest(const StepDigest& digest) {
  message(fmt::format("step {} digest {}", digest.step, digest.digest));
}

void Progress::on_validation(const ValidationMetrics& metrics) {
  std::string text = scores_text(metrics, impl_->smooths);
  for (const ValidationMetrics& set : metrics.sets)
    text += fmt::format("; {}: {}", set.name, scores_text(set, impl_->smooths));
  message(fmt::format("step {}  validation: {}{}  ({})", metrics.step, text,
                      metrics.is_best ? "  best so far" : "", duration_text(metrics.seconds)));
}

void Progress::on_script_result(const ScriptResult& result) {
  const std::string of = fmt::format("step {}, {}", result.of_step, result.set);
  if (result.score) {
    message(fmt::format("step {}  script for {}: {:.6g}", result.step, of, *result.score));
  } else {
    warning(fmt::format("--valid-script has no score for {}: {}", of, result.error));
  }
}

void Progress::on_rate_drop(const RateDrop& drop) {
  message(fmt::format("the learning rate drops from {:.4g} to {:.4g} after step {}: {} without a better one",
                      drop.before, drop.after, drop.step, counted(drop.validations, "validation")));
}

void Progress::on_stage_end(const StageChange& ended) {
  message(fmt::format(
      "stage {} has ended at step {} ({}); {}", ended.name, ended.step, ended.end,
      ended.next.empty() ? "it was the last: training is done" : fmt::format("stage {} begins", ended.next)));
}

void Progress::on_end(const RunEnd& end) {
  message(fmt::format("{} at step {} after {}, saved in {}", end.stopped ? "stopped on request" : "done",
                      end.step, duration_text(end.elapsed_seconds), readable(end.last_checkpoint)));
  message(fmt::format("{:.0f} target tokens/s, {:.1f} GFLOP/s of the model, peak memory {} MiB on {}",
                      end.target_tokens_per_second, 1e-9 * end.flops_per_second, end.peak_memory_bytes >> 20,
                      counted(end.ranks, "rank")));
}

void Progress::message(const std::string& text) {
  impl_->say(text);
}

void Progress::warning(const std::string& text) {
  impl_->say("warning: " + text);
}

}  // namespace ventris
