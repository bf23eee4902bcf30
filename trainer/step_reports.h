// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "backend/device/transfer.h"
#include "trainer/optimizer.h"

namespace ventris {

/// A step whose report is being copied to the host.
struct ReportedStep {
  int64_t step = 0;
  int64_t target_tokens = 0;  // of the global batch
  int64_t source_tokens = 0;
  double flops = 0.0;  // of all ranks
};

/// Copies the reports of steps to the host some steps later, so that it does not wait for the device. The
/// delay depends only on the calls: all ranks read a report in the same step, and end in the same step.
class StepReports {
 public:
  static constexpr size_t kMax = 2;  // pending at a time

  struct Arrived {
    ReportedStep of;
    StepReport report;
  };

  /// The context must outlive the object.
  explicit StepReports(Context& context)
      : slots_{HostBuffer(context, sizeof(StepReport)), HostBuffer(context, sizeof(StepReport))} {}

  /// Enqueues the copy of the report of the last enqueued step. Requires that fewer than kMax are pending.
  void request(Optimizer& optimizer, const ReportedStep& step);
  /// The oldest report if more than `max` are pending, otherwise empty. Waits for that step.
  std::optional<Arrived> next(size_t max);

 private:
  std::array<HostBuffer, kMax> slots_;
  std::array<ReportedStep, kMax> steps_;
  size_t requested_ = 0;
  size_t taken_ = 0;
};

}  // namespace ventris
