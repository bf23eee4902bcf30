#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "backend/transfer.h"
#include "trainer/optimizer.h"

namespace ventris {

/// A step whose report is on its way to the host.
struct ReportedStep {
  int64_t step = 0;
  int64_t target_tokens = 0;  // of the global batch
  int64_t source_tokens = 0;
};

/// Brings the reports of steps to the host some steps later, so that it need not wait for the device. How
/// much later depends on the calls alone: all ranks read a report in the same step, and come to the same end.
class StepReports {
 public:
  static constexpr size_t kMax = 2;  // on their way at a time

  struct Arrived {
    ReportedStep of;
    StepReport report;
  };

  /// The context outlives the object.
  explicit StepReports(Context& context)
      : slots_{HostBuffer(context, sizeof(StepReport)), HostBuffer(context, sizeof(StepReport))} {}

  /// Enqueues the copy of the report of the step that the device was given last. Requires that fewer than
  /// kMax are on their way.
  void request(Optimizer& optimizer, const ReportedStep& step);
  /// The oldest report, while more than `max` are on their way, else nothing. Waits for that step.
  std::optional<Arrived> next(size_t max);

 private:
  std::array<HostBuffer, kMax> slots_;
  std::array<ReportedStep, kMax> steps_;
  size_t requested_ = 0;
  size_t taken_ = 0;
};

}  // namespace ventris
