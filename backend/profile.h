#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"

namespace ventris {

struct CudaTimeline;  // backend/profile_cuda.cu
using CudaTimelinePtr = std::unique_ptr<CudaTimeline, void (*)(CudaTimeline*)>;

/// How long the phases of steps take: on the CPU by the clock of the host, on CUDA between events of the
/// context's stream, which are read when their step is long done. Nothing is measured outside begin_step()
/// and end_step(), where a ProfileRange costs a comparison. What is enqueued inside is not captured into a
/// graph: events there have no times.
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
  /// Forgets everything, an unfinished step too.
  void clear();

  /// Of the steps that ended; these wait for the device. Not while a step is measured.
  int64_t steps() const { return steps_; }
  double step_seconds();
  /// In the order in which they came first.
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

/// Measures a phase of a step, from here to the end of the scope; the phases of one name add up. Phases do
/// not contain one another. On CUDA it is an NVTX range besides, for the timelines of profilers.
class ProfileRange {
 public:
  /// `name` lives as long as the program.
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
