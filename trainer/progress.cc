#include "trainer/progress.h"

#include <fmt/core.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>

#include "trainer/live_line.h"
#include "trainer/message_colour.h"
#include "trainer/message_terminal.h"
#include "trainer/signals.h"
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

std::string duration_text(double seconds) {
  const int64_t total = std::llround(std::max(0.0, seconds));
  if (total >= 3600) return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} s", total);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLivePeriod{500};

// The perplexity of a diverging model has hundreds of digits.
std::string perplexity_text(double perplexity) {
  return perplexity < 1e7 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.2e}", perplexity);
}

// The training loss has smoothed labels, so its exponential is not a perplexity.
std::string loss_text(double loss, double perplexity, bool smooths) {
  return fmt::format("{}loss {:.4f}  perplexity {}", smooths ? "smoothed " : "", loss,
                     perplexity_text(perplexity));
}

std::string loss_text(const IntervalMetrics& metrics, bool smooths) {
  if (metrics.has_loss()) return loss_text(metrics.loss(), metrics.perplexity(), smooths);
  return metrics.skipped_steps > 0 ? "loss not finite" : "loss not yet read";
}

std::string scores_text(const ValidationMetrics& metrics, bool smooths) {
  std::string text = loss_text(metrics.loss, metrics.perplexity(), smooths);
  if (metrics.has_bleu) text += fmt::format("  BLEU {:.2f}", metrics.bleu);
  if (metrics.bleu_interval)
    text += fmt::format(" ({:.2f} to {:.2f})", metrics.bleu_interval->low, metrics.bleu_interval->high);
  if (metrics.has_chrf) text += fmt::format("  chrF {:.2f}", metrics.chrf);
  return text;
}

// The most important numbers come first: a narrow terminal truncates the line.
std::string short_progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left) {
  return fmt::format("step {}/{}  {}  {} left  {:.0f} tokens/s", metrics.step, max_steps,
                     loss_text(metrics, false), duration_text(seconds_left),
                     metrics.target_tokens_per_second());
}

}  // namespace

std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left,
                          bool smooths) {
  const std::string skipped =
      metrics.skipped_steps > 0 ? fmt::format("  {} skipped", metrics.skipped_steps) : "";
  return fmt::format("step {}/{}  epoch {:.2f}  {}  lr {:.3e}  {:.0f} target tokens/s{}  {} left",
                     metrics.step, max_steps, metrics.epoch, loss_text(metrics, smooths),
                     metrics.learning_rate, metrics.target_tokens_per_second(), skipped,
                     duration_text(seconds_left));
}

struct Progress::Impl {
  const MessageTerminal terminal;
  const bool live;
  const bool lines;
  const int64_t max_steps;
  const bool smooths;
  const double log_seconds;
  mutable std::mutex mutex;  // of the other members: a thread reports a stop while another trains
  LiveLine live_line{terminal.reflows()};
  Clock::time_point last_word = Clock::now();  // time of the last message
  spdlog::logger log{"ventris", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Impl(bool speaks, const TrainOptions& options)
      : live(speaks && (options.progress == "live" || (options.progress == "auto" && terminal.exists()))),
        lines(speaks && !live && options.progress != "none"),
        max_steps(options.max_steps),
        smooths(options.model.label_smoothing > 0.0F),
        log_seconds(options.log_seconds) {
    log.set_pattern("%Y-%m-%d %H:%M:%S  %v");
    log.set_level(speaks ? spdlog::level::info : spdlog::level::off);
    log.flush_on(spdlog::level::info);
  }
  bool is_silent_for(std::chrono::duration<double> time) const {
    const std::lock_guard lock(mutex);
    return Clock::now() - last_word >= time;
  }
  bool is_silent_for_long() const {
    return (live || lines) && log_seconds > 0.0 && is_silent_for(std::chrono::duration<double>(log_seconds));
  }
  void say(spdlog::level::level_enum level, const std::string& text) {
    const std::lock_guard lock(mutex);
    std::fputs(live_line.remove(terminal.columns()).c_str(), stderr);
    log.log(level, "{}", with_coloured_warning(text));
    last_word = Clock::now();
  }
  void show(const std::string& text, const std::string& short_text) {
    const std::lock_guard lock(mutex);
    const size_t columns = terminal.columns();
    const bool fits = columns == 0 || text.size() < columns;
    std::fputs(live_line.replace(fits ? text : short_text, columns).c_str(), stderr);
    std::fflush(stderr);
    last_word = Clock::now();
  }
  // The last: it uses the others.
  const StopNotice stop_notice{[this](int signal) { say(spdlog::level::info, stop_text(signal)); }};
};

Progress::Progress(bool speaks, const TrainOptions& options)
    : impl_(std::make_unique<Impl>(speaks, options)) {}

Progress::~Progress() {
  if (impl_->live_line.is_open()) std::fputc('\n', stderr);
}

bool Progress::wants_line() const {
  return impl_->live ? impl_->is_silent_for(kLivePeriod) : impl_->is_silent_for_long();
}

void Progress::line(const IntervalMetrics& metrics, double seconds_left) {
  const std::string text = progress_text(metrics, impl_->max_steps, seconds_left, impl_->smooths);
  if (impl_->live) impl_->show(text, short_progress_text(metrics, impl_->max_steps, seconds_left));
  if (impl_->lines) message(text);
}

void Progress::goes_on(int64_t step, const std::string& what) {
  if (!impl_->is_silent_for_long()) return;
  const std::string text = fmt::format("step {}/{}  {}", step, impl_->max_steps, what);
  if (impl_->live) impl_->show(text, text);
  if (impl_->lines) message(text);
}

void Progress::validation(const ValidationMetrics& metrics, bool best, double seconds) {
  std::string text = scores_text(metrics, impl_->smooths);
  for (const ValidationMetrics& set : metrics.sets)
    text += fmt::format("; {}: {}", set.name, scores_text(set, impl_->smooths));
  if (metrics.p_value) text += fmt::format("  p = {:.3f}", *metrics.p_value);
  message(fmt::format("step {}  validation: {}{}  ({})", metrics.step, text, best ? "  best so far" : "",
                      duration_text(seconds)));
}

void Progress::message(const std::string& text) {
  impl_->say(spdlog::level::info, text);
}

void Progress::warning(const std::string& text) {
  impl_->say(spdlog::level::warn, "warning: " + text);
}

}  // namespace ventris
