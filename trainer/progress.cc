#include "trainer/progress.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace ventris {

std::string duration_text(double seconds) {
  const auto total = static_cast<int64_t>(std::max(0.0, seconds) + 0.5);
  if (total >= 3600) return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
  if (total >= 60) return fmt::format("{} min {:02} s", total / 60, total % 60);
  return fmt::format("{} s", total);
}

namespace {

// A model that is diverging has a perplexity of hundreds of digits.
std::string perplexity_text(double perplexity) {
  return perplexity < 1e7 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.2e}", perplexity);
}

std::string loss_text(const IntervalMetrics& metrics) {
  if (!metrics.has_loss()) return "loss not finite";
  return fmt::format("loss {:.4f}  perplexity {}", metrics.loss(), perplexity_text(metrics.perplexity()));
}

// 0 if the terminal does not tell.
size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// What matters most comes first: a narrow terminal cuts the end off.
std::string short_progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left) {
  return fmt::format("step {}/{}  {}  {} left  {:.0f} tokens/s", metrics.step, max_steps, loss_text(metrics),
                     duration_text(seconds_left), metrics.target_tokens_per_second());
}

}  // namespace

std::string progress_text(const IntervalMetrics& metrics, int64_t max_steps, double seconds_left) {
  const std::string skipped =
      metrics.skipped_steps > 0 ? fmt::format("  {} skipped", metrics.skipped_steps) : "";
  return fmt::format("step {}/{}  epoch {:.2f}  {}  lr {:.3e}  {:.0f} target tokens/s{}  {} left",
                     metrics.step, max_steps, metrics.epoch, loss_text(metrics), metrics.learning_rate,
                     metrics.target_tokens_per_second(), skipped, duration_text(seconds_left));
}

struct Progress::Impl {
  bool speaks;
  bool terminal;
  int64_t max_steps;
  bool line_is_open = false;
  std::chrono::steady_clock::time_point next_line = std::chrono::steady_clock::now();
  spdlog::logger log{"ventris", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Impl(bool speaks_in, int64_t max_steps_in)
      : speaks(speaks_in), terminal(speaks && isatty(STDERR_FILENO) == 1), max_steps(max_steps_in) {
    log.set_pattern("%Y-%m-%d %H:%M:%S  %v");
    log.set_level(speaks ? spdlog::level::info : spdlog::level::off);
    log.flush_on(spdlog::level::info);
  }
  void close_line() {
    if (line_is_open) std::fputs("\r\033[K", stderr);
    line_is_open = false;
  }
  void say(spdlog::level::level_enum level, const std::string& text) {
    close_line();
    log.log(level, "{}", text);
  }
};

Progress::Progress(bool speaks, int64_t max_steps) : impl_(std::make_unique<Impl>(speaks, max_steps)) {}

Progress::~Progress() {
  if (impl_->line_is_open) std::fputc('\n', stderr);
}

bool Progress::wants_live_line() const {
  return impl_->terminal && std::chrono::steady_clock::now() >= impl_->next_line;
}

void Progress::live_line(const IntervalMetrics& metrics, double seconds_left) {
  if (!impl_->terminal) return;
  impl_->next_line = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  std::string text = progress_text(metrics, impl_->max_steps, seconds_left);
  // A line that wraps could not be written over.
  const size_t columns = terminal_columns();
  if (columns > 0 && text.size() >= columns) {
    text = short_progress_text(metrics, impl_->max_steps, seconds_left).substr(0, columns - 1);
  }
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
  impl_->line_is_open = true;
}

void Progress::interval(const IntervalMetrics& metrics, double seconds_left) {
  if (impl_->terminal) {
    live_line(metrics, seconds_left);
  } else {
    message(progress_text(metrics, impl_->max_steps, seconds_left));
  }
}

void Progress::validation(const ValidationMetrics& metrics, bool best, double seconds) {
  const std::string bleu = metrics.has_bleu ? fmt::format("  BLEU {:.2f}", metrics.bleu) : "";
  const std::string chrf = metrics.has_chrf ? fmt::format("  chrF {:.2f}", metrics.chrf) : "";
  message(fmt::format("step {}  validation: loss {:.4f}  perplexity {}{}{}{}  ({})", metrics.step,
                      metrics.loss, perplexity_text(metrics.perplexity()), bleu, chrf,
                      best ? "  best so far" : "", duration_text(seconds)));
}

void Progress::message(const std::string& text) {
  impl_->say(spdlog::level::info, text);
}

void Progress::warning(const std::string& text) {
  impl_->say(spdlog::level::warn, "warning: " + text);
}

}  // namespace ventris
