// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/device/context.h"

namespace ventris {

struct CudaTimeline;  // backend/device/profile_cuda.cu
using CudaTimelinePtr = std::unique_ptr<CudaTimeline, void (*)(CudaTimeline*)>;

/// The durations of the phases of steps: on the CPU by the clock of the host, on CUDA between events of the
/// context's stream, which are read after their step has ended. Nothing is measured outside begin_step() and
/// end_step(), where a ProfileRange costs a comparison. Measured steps are not captured into a graph: its
/// marks would be measured in every replay.
class Profile {
 public:
  struct Phase {
    std::string name;
    double seconds = 0.0;  // of all measured steps
    int64_t ranges = 0;
  };

  /// `device` is null on the CPU, and outlives the object.
  explicit Profile(CudaDevice* device);

  void begin_step();
  /// Requires that no phase is open.
  void end_step();
  bool measuring() const { return measuring_; }
  /// Discards all measurements, including an unfinished step.
  void clear();

  /// For the completed steps; these wait for the device. Not while a step is measured.
  int64_t steps() const { return steps_; }
  double step_seconds();
  /// In order of first occurrence.
  std::vector<Phase> phases();

 private:
  friend class ProfileRange;
  friend class ProfileLayer;
  using Clock = std::chrono::steady_clock;

  void begin_phase(const char* name);
  void end_phase() noexcept;
  void push_name(const char* name, int index);
  void pop_name() noexcept;
  void open(size_t phase);
  void record(size_t mark) noexcept;
  void collect();

  CudaTimelinePtr timeline_;              // of CUDA
  std::vector<Clock::time_point> times_;  // of marks, on the CPU
  std::vector<Phase> phases_;             // the first is the whole step
  std::vector<size_t> spans_;             // phases of the last step; the marks of span i are 2 i and 2 i + 1
  bool measuring_ = false;
  bool phase_is_open_ = false;
  int64_t steps_ = 0;
};

/// Measures a phase of a step, from here to the end of the scope; the phases of one name add up. Phases must
/// not be nested. On CUDA it is also an NVTX range, for the timelines of profilers.
class ProfileRange {
 public:
  /// `name` must live as long as the program.
  ProfileRange(Context& context, const char* name)
      : profile_(context.profile().measuring() ? &context.profile() : nullptr) {
    if (profile_ != nullptr) profile_->begin_phase(name);
  }
  ~ProfileRange() {
    if (profile_ != nullptr) profile_->end_phase();
  }
  ProfileRange(const ProfileRange&) = delete;
  ProfileRange& operator=(const ProfileRange&) = delete;

 private:
  Profile* profile_;
};

/// Names a layer inside a phase for the timelines of profilers: an NVTX range "name index" on CUDA.
class ProfileLayer {
 public:
  ProfileLayer(Context& context, const char* name, size_t index)
      : profile_(context.profile().measuring() ? &context.profile() : nullptr) {
    if (profile_ != nullptr) profile_->push_name(name, static_cast<int>(index));
  }
  ~ProfileLayer() {
    if (profile_ != nullptr) profile_->pop_name();
  }
  ProfileLayer(const ProfileLayer&) = delete;
  ProfileLayer& operator=(const ProfileLayer&) = delete;

 private:
  Profile* profile_;
};

}  // namespace ventris
