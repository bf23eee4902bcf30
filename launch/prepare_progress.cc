// SPDX-License-Identifier: Apache-2.0
#include "launch/prepare_progress.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "launch/output.h"
#include "trainer/live_line.h"
#include "trainer/progress_text.h"

namespace ventris {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLiveSeconds = 0.5;

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

}  // namespace

struct PrepareProgressLine::Impl {
  const bool speaks;
  const double log_seconds;
  LiveLine line = {};
  std::string phase = {};
  Clock::time_point phase_begin = Clock::now();
  Clock::time_point last_shown = Clock::now();
};

PrepareProgressLine::PrepareProgressLine(bool speaks, double log_seconds)
    : impl_(new Impl{.speaks = speaks, .log_seconds = log_seconds}) {}

PrepareProgressLine::~PrepareProgressLine() {
  impl_->line.clear();
}

void PrepareProgressLine::show(const data::PrepareProgress& progress) {
  Impl& shown = *impl_;
  if (shown.phase != progress.phase) {
    shown.phase = progress.phase;
    shown.phase_begin = Clock::now();
  }
  const bool live = shown.line.is_possible();
  const double period = live ? kLiveSeconds : shown.log_seconds;
  if (!shown.speaks || period == 0.0 || seconds_since(shown.last_shown) < period) return;
  shown.last_shown = Clock::now();
  const std::string text = prepare_progress_text(progress, seconds_since(shown.phase_begin));
  if (live) {
    shown.line.show(text);
  } else {
    tell(text);
  }
}

std::string prepare_progress_text(const data::PrepareProgress& progress, double seconds) {
  std::string text = fmt::format("{}  {} pairs", progress.phase, grouped(progress.pairs));
  constexpr double kFewSeconds = 0.02;  // too few for a rate
  if (progress.all_bytes <= 0 || progress.bytes <= 0 || seconds < kFewSeconds) {
    return text + fmt::format("  for {}", duration_text(seconds));
  }
  text += fmt::format("  {} pairs/s", grouped(std::llround(static_cast<double>(progress.pairs) / seconds)));
  const double left = seconds * static_cast<double>(progress.all_bytes - progress.bytes) /
                      static_cast<double>(progress.bytes);
  return text + fmt::format("  {} left", duration_text(left));
}

}  // namespace ventris
