// SPDX-License-Identifier: Apache-2.0
#include "trainer/progress_view.h"

#include <algorithm>
#include <exception>
#include <filesystem>

#include "backend/device.h"
#include "trainer/files/metrics_sample.h"
#include "trainer/message_colour.h"
#include "trainer/metrics.h"
#include "trainer/train_options.h"

namespace ventris {
namespace {

constexpr double kSecondsOfMemory = 0.4;  // between measurements; about one for each frame

std::string name_of_folder(const std::string& folder) {
  const std::filesystem::path path(folder);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::optional<double> score_of(const std::string& metric, const std::optional<double>& bleu,
                               const std::optional<double>& chrf) {
  if (metric == "bleu") return bleu;
  return metric == "chrf" ? chrf : std::nullopt;
}

double seconds_since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

}  // namespace

ProgressView::ProgressView(const TrainOptions& options)
    : model_dir_(options.model_dir),
      max_epochs_(options.max_epochs),
      max_seconds_(60.0 * options.max_minutes),
      style_{.charset = message_charset(), .colours = has_message_colours()} {
  run_.name = name_of_folder(options.model_dir);
  run_.max_steps = options.max_steps;
  run_.smooths = options.model.label_smoothing > 0.0F;
}

std::string ProgressView::begin(const ProgressStart& start) {
  has_begun_ = true;
  has_device_memory_ = start.has_device_memory;
  run_.metric = start.metric;
  run_.validates = start.validates;
  run_.best_step = start.best_step;
  run_.best = start.best;
  if (start.resumes) run_.saved_step = start.step;
  run_.step = start.step;
  run_.epoch = start.epoch;
  run_.elapsed_seconds = start.elapsed_seconds;
  run_.ranks = start.ranks;
  begun_ = start.begun;
  reached_ = Clock::now();
  measure_memory();
  if (!start.resumes) return "";
  try {
    take_log(model_dir_ + "/metrics.jsonl");
  } catch (const std::exception& error) {  // a picture ends no run
    return error.what();
  }
  return "";
}

void ProgressView::take_log(const std::string& path) {
  const MetricsSample sample = sample_metrics(path, kPicturedValidations);
  for (const LoggedLoss& loss : sample.losses) run_.curve.add({.step = loss.step, .value = loss.loss});
  for (const LoggedValidation& logged : sample.validations) {
    run_.validations.push_back({.step = logged.step,
                                .loss = logged.loss,
                                .perplexity = logged.perplexity,
                                .score = score_of(run_.metric, logged.bleu, logged.chrf)});
  }
}

void ProgressView::reach(const IntervalMetrics& metrics, double seconds_left) {
  run_.activity.clear();
  run_.step = metrics.step;
  run_.epoch = metrics.epoch;
  run_.stage = metrics.stage;
  if (metrics.has_loss()) {
    run_.loss = metrics.loss();
    run_.perplexity = metrics.perplexity();
    run_.target_tokens_per_second = metrics.target_tokens_per_second();
  }
  run_.learning_rate = metrics.learning_rate;
  run_.gradient_norm = metrics.gradient_norm;
  run_.skipped_steps = metrics.skipped_steps;
  run_.elapsed_seconds = metrics.elapsed_seconds;
  run_.seconds_left = seconds_left;
  reached_ = Clock::now();
  if (seconds_since(measured_) >= kSecondsOfMemory) measure_memory();
}

void ProgressView::measure_memory() {
  measured_ = Clock::now();
  run_.memory = host_memory();
  if (!has_device_memory_) return;
  const DeviceMemory memory = cuda_memory();
  run_.device_used = memory.used;
  run_.device_total = memory.total;
}

void ProgressView::end_interval(const IntervalMetrics& metrics) {
  if (metrics.has_loss()) run_.curve.add({.step = metrics.step, .value = metrics.loss()});
}

void ProgressView::validated(const ValidationMetrics& metrics, bool best) {
  run_.activity.clear();
  const auto if_there = [](bool there, double value) { return there ? std::optional(value) : std::nullopt; };
  std::vector<PicturedValidation>& all = run_.validations;
  std::erase_if(all, [&](const PicturedValidation& other) { return other.step >= metrics.step; });
  all.insert(all.begin(), {.step = metrics.step,
                           .loss = metrics.loss,
                           .perplexity = metrics.perplexity(),
                           .score = score_of(run_.metric, if_there(metrics.has_bleu, metrics.bleu),
                                             if_there(metrics.has_chrf, metrics.chrf))});
  if (all.size() > kPicturedValidations) all.pop_back();
  if (!best) return;
  run_.best_step = metrics.step;
  run_.best = metrics.of(run_.metric);
}

void ProgressView::saved(int64_t step) {
  run_.saved_step = step;
  run_.saved_by_this_start = true;
  saved_ = Clock::now();
}

void ProgressView::set_activity(const std::string& what) {
  if (!has_ended_) run_.activity = what;
}

void ProgressView::end(const std::string& how) {
  has_ended_ = true;
  run_.activity = how;
  run_.seconds_left.reset();
}

double ProgressView::fraction() const {
  double part = static_cast<double>(run_.step) / static_cast<double>(std::max<int64_t>(1, run_.max_steps));
  if (max_epochs_ > 0) part = std::max(part, run_.epoch / static_cast<double>(max_epochs_));
  if (max_seconds_ > 0.0) part = std::max(part, seconds_since(begun_) / max_seconds_);
  return std::min(part, 1.0);
}

std::vector<std::string> ProgressView::rows(const TerminalSize& size) {
  PicturedRun shown = run_;
  const double since = seconds_since(reached_);
  shown.elapsed_seconds += since;
  if (shown.seconds_left) *shown.seconds_left -= since;  // shown as at least 0
  shown.saved_seconds = seconds_since(saved_);
  shown.fraction = fraction();
  std::vector<std::string> rows = progress_picture(shown, size, style_);
  if (rows.size() == 1) return rows;
  rows.insert(rows.begin(), "");
  rows.emplace_back();
  return rows;
}

}  // namespace ventris
