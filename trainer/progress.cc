// SPDX-License-Identifier: Apache-2.0
#include "trainer/progress.h"

#include <fmt/core.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

#include "trainer/live_block.h"
#include "trainer/message_colour.h"
#include "trainer/message_terminal.h"
#include "trainer/progress_text.h"
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
  if (options.max_minutes > 0.0) left = std::min(left, 60.0 * options.max_minutes - run.seconds_of_process);
  return left;
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLivePeriod{500};

enum class Form { kNone, kLines, kLive, kPicture };

Form form_of(const std::string& option, const MessageTerminal& terminal) {
  if (option == "none") return Form::kNone;
  if (option == "live") return Form::kLive;
  if (option == "lines" || !terminal.has_cursor()) return Form::kLines;
  return option == "full" ? Form::kPicture : Form::kLive;
}

}  // namespace

struct Progress::Impl {
  const MessageTerminal terminal;
  const Form form;
  const bool speaks;
  const int64_t max_steps;
  const bool smooths;
  const double log_seconds;
  mutable std::mutex mutex;  // of the other members: a thread reports a stop while another trains
  LiveBlock block{terminal.reflows()};
  std::optional<ProgressView> view;            // of a picture
  Clock::time_point last_word = Clock::now();  // time of the last message
  Clock::time_point last_frame = {};           // of the picture
  TerminalSize last_size = {};                 // likewise
  std::ostringstream written;                  // by the next, which puts the time before messages
  spdlog::logger log{"ventris", std::make_shared<spdlog::sinks::ostream_sink_st>(written)};

  Impl(bool is_first, const TrainOptions& options)
      : form(is_first ? form_of(options.progress, terminal) : Form::kNone),
        speaks(is_first),
        max_steps(options.max_steps),
        smooths(options.model.label_smoothing > 0.0F),
        log_seconds(options.log_seconds) {
    if (form == Form::kPicture) view.emplace(options);
    log.set_pattern("%Y-%m-%d %H:%M:%S  %v");
  }
  static bool has_passed(Clock::time_point since, std::chrono::duration<double> time) {
    return Clock::now() - since >= time;
  }
  bool is_silent_for_long() const {
    const std::lock_guard lock(mutex);
    return form != Form::kNone && log_seconds > 0.0 &&
           has_passed(last_word, std::chrono::duration<double>(log_seconds));
  }
  bool frame_is_due() const {
    const std::lock_guard lock(mutex);
    return has_passed(form == Form::kPicture ? last_frame : last_word, kLivePeriod);
  }
  // The form for now: among the lines of another job of the shell there is no place that stays.
  Form present_form() const {
    const bool is_live = form == Form::kLive || form == Form::kPicture;
    if (!is_live || !terminal.is_of_another_job()) return form;
    return Form::kLines;
  }
  static void write(const std::string& bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stderr); }

  void say(spdlog::level::level_enum level, const std::string& text) {
    if (!speaks) return;
    const std::lock_guard lock(mutex);
    log.log(level, "{}", with_coloured_warning(readable_lines(text)));
    const std::string line = written.str();
    written.str("");
    find_place();
    const TerminalSize size = terminal.size();
    if (view) view->set_activity("");
    write(view && block.is_open() ? block.replace(view->rows(size), size, line) : block.remove(size) + line);
    last_word = Clock::now();
  }
  // The cursor is no longer behind the block if others wrote since.
  void find_place() {
    if (was_continued() || terminal.is_of_another_job()) block.forget();
  }
  void show(const std::string& text, const std::string& short_text) {
    const std::lock_guard lock(mutex);
    find_place();
    const TerminalSize size = terminal.size();
    const bool fits = size.columns == 0 || text.size() < size.columns;
    write(block.replace({fits ? text : short_text}, size));
    last_word = Clock::now();
  }
  // After what is done to the picture, if a frame is due. While the terminal is resized there is none: until
  // tmux tells of further sizes, a quarter of a second later, rows are elsewhere than they seem.
  template <typename Change>
  void draw(const Change& change) {
    const std::lock_guard lock(mutex);
    change(*view);
    if (present_form() != Form::kPicture || !has_passed(last_frame, kLivePeriod)) return;
    find_place();
    const TerminalSize size = terminal.size();
    if (block.is_open() && std::exchange(last_size, size) != size) {
      last_frame = Clock::now();
      return;
    }
    write(block.replace(view->rows(size), size));
    last_frame = last_word = Clock::now();
  }
  void line(const IntervalMetrics& metrics, double seconds_left, bool ends_interval) {
    if (view) draw([&](ProgressView& picture) { picture.reach(metrics, seconds_left); });
    const Form present = present_form();
    const std::string text = progress_text(metrics, max_steps, seconds_left, smooths);
    if (present == Form::kLive) show(text, short_progress_text(metrics, max_steps, seconds_left));
    if (present == Form::kLines && (form == Form::kLines || ends_interval || is_silent_for_long()))
      say(spdlog::level::info, text);
  }
  void report_stop(int signal) {
    // That of a launcher ends the job: what it or another rank wrote of the reason stays.
    if (signal == SIGTERM && terminal.is_forwarded()) {
      const std::lock_guard lock(mutex);
      write(block.leave());
    }
    say(spdlog::level::info, stop_text(signal));
  }
  // The last: it uses the others.
  const StopNotice stop_notice{[this](int signal) { report_stop(signal); }};
};

Progress::Progress(bool speaks, const TrainOptions& options)
    : impl_(std::make_unique<Impl>(speaks, options)) {}

// The picture stays, as the live line does: who comes back to the terminal finds the curve and the last
// scores.
Progress::~Progress() {
  const std::lock_guard lock(impl_->mutex);
  Impl::write(impl_->block.leave());
}

void Progress::begin(const ProgressStart& start) {
  if (!impl_->view) return;
  std::string problem;
  impl_->draw([&](ProgressView& picture) { problem = picture.begin(start); });
  if (!problem.empty()) warning("the picture begins without what the log has of the run: " + problem);
}

bool Progress::wants_line() const {
  const Form form = impl_->form;
  return form == Form::kLive || form == Form::kPicture ? impl_->frame_is_due() : impl_->is_silent_for_long();
}

void Progress::line(const IntervalMetrics& metrics, double seconds_left) {
  impl_->line(metrics, seconds_left, /*ends_interval=*/false);
}

void Progress::interval(const IntervalMetrics& metrics, double seconds_left) {
  if (impl_->view) {
    const std::lock_guard lock(impl_->mutex);
    impl_->view->end_interval(metrics);
  }
  impl_->line(metrics, seconds_left, /*ends_interval=*/true);
}

void Progress::goes_on(int64_t step, const std::string& what) {
  if (impl_->view && impl_->view->has_begun())
    impl_->draw([&](ProgressView& picture) { picture.set_activity(what); });
  if (!impl_->is_silent_for_long()) return;
  const Form form = impl_->present_form();
  const std::string text = fmt::format("step {}/{}  {}", step, impl_->max_steps, what);
  if (form == Form::kLive) impl_->show(text, text);
  if (form == Form::kLines) message(text);
}

void Progress::validation(const ValidationMetrics& metrics, bool best, double seconds) {
  std::string text = scores_text(metrics, impl_->smooths);
  for (const ValidationMetrics& set : metrics.sets)
    text += fmt::format("; {}: {}", set.name, scores_text(set, impl_->smooths));
  if (metrics.p_value) text += fmt::format("  p = {:.3f}", *metrics.p_value);
  if (impl_->view) {
    const std::lock_guard lock(impl_->mutex);
    impl_->view->validated(metrics, best);
  }
  message(fmt::format("step {}  validation: {}{}  ({})", metrics.step, text, best ? "  best so far" : "",
                      duration_text(seconds)));
}

void Progress::saved(int64_t step) {
  if (!impl_->view) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->view->saved(step);
}

void Progress::end(const std::string& how) {
  if (!impl_->view) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->view->end(how);
}

void Progress::message(const std::string& text) {
  impl_->say(spdlog::level::info, text);
}

void Progress::warning(const std::string& text) {
  impl_->say(spdlog::level::warn, "warning: " + text);
}

}  // namespace ventris
