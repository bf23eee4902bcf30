// SPDX-License-Identifier: Apache-2.0
#include "backend/device/profile.h"

#include "backend/device/error.h"
#include "backend/device/has_cuda.h"
#include "backend/device/profile_cuda.h"

namespace ventris {
namespace {

constexpr size_t kStep = 0;  // among the phases

CudaTimelinePtr timeline_of(CudaDevice* device) {
  if constexpr (kHasCuda) {
    if (device != nullptr) return make_timeline_cuda(*device);
  }
  return {nullptr, [](CudaTimeline*) {}};
}

}  // namespace

Profile::Profile(CudaDevice* device) : timeline_(timeline_of(device)), phases_{{.name = "step"}} {}

void Profile::begin_step() {
  VENTRIS_CHECK(!measuring_, "a step begins while another is measured");
  collect();
  open(kStep);
  measuring_ = true;
}

void Profile::end_step() {
  VENTRIS_CHECK(measuring_, "a step ends that was not begun");
  VENTRIS_CHECK(!phase_is_open_, "a step ends inside its phase \"{}\"", phases_[spans_.back()].name);
  record(1);
  pop_name();
  measuring_ = false;
  ++steps_;
}

void Profile::clear() {
  phases_.resize(1);
  phases_[kStep].seconds = 0.0;
  phases_[kStep].ranges = 0;
  spans_.clear();
  measuring_ = phase_is_open_ = false;
  steps_ = 0;
}

double Profile::step_seconds() {
  collect();
  return phases_[kStep].seconds;
}

std::vector<Profile::Phase> Profile::phases() {
  collect();
  return {phases_.begin() + 1, phases_.end()};
}

void Profile::begin_phase(const char* name) {
  VENTRIS_CHECK(!phase_is_open_, "the phase \"{}\" begins inside the phase \"{}\"", name,
                phases_[spans_.back()].name);
  size_t phase = kStep + 1;
  while (phase < phases_.size() && phases_[phase].name != name) ++phase;
  if (phase == phases_.size()) phases_.push_back({.name = name});
  open(phase);
  phase_is_open_ = true;
}

void Profile::end_phase() noexcept {
  if (!phase_is_open_) return;  // the step was discarded
  record(2 * spans_.size() - 1);
  pop_name();
  phase_is_open_ = false;
}

void Profile::push_name(const char* name, int index) {
  if constexpr (kHasCuda) {
    if (timeline_) push_range_cuda(name, index);
  }
}

void Profile::pop_name() noexcept {
  if constexpr (kHasCuda) {
    if (timeline_) pop_range_cuda();
  }
}

/// Memory for both marks is allocated here, so that the end of the span cannot fail.
void Profile::open(size_t phase) {
  const size_t marks = 2 * (spans_.size() + 1);
  if constexpr (kHasCuda) {
    if (timeline_) prepare_cuda(*timeline_, marks);
  }
  if (!timeline_ && times_.size() < marks) times_.resize(marks);
  spans_.push_back(phase);
  push_name(phases_[phase].name.c_str(), -1);
  record(marks - 2);
}

void Profile::record(size_t mark) noexcept {
  if constexpr (kHasCuda) {
    if (timeline_) return record_cuda(*timeline_, mark);
  }
  times_[mark] = Clock::now();
}

void Profile::collect() {
  VENTRIS_CHECK(!measuring_, "the times of phases are requested while a step is measured");
  for (size_t i = 0; i < spans_.size(); ++i) {
    Phase& phase = phases_[spans_[i]];
    ++phase.ranges;
    if constexpr (kHasCuda) {
      if (timeline_) {
        phase.seconds += seconds_between_cuda(*timeline_, 2 * i, 2 * i + 1);
        continue;
      }
    }
    phase.seconds += std::chrono::duration<double>(times_[2 * i + 1] - times_[2 * i]).count();
  }
  spans_.clear();
}

}  // namespace ventris
