// SPDX-License-Identifier: Apache-2.0
#include "trainer/step_reports.h"

#include <cstring>

#include "backend/device/error.h"

namespace ventris {

void StepReports::request(Optimizer& optimizer, const ReportedStep& step) {
  VENTRIS_CHECK(requested_ - taken_ < kMax, "{} reports are pending", requested_ - taken_);
  const size_t slot = requested_++ % kMax;
  optimizer.receive_report(slots_[slot]);
  steps_[slot] = step;
}

std::optional<StepReports::Arrived> StepReports::next(size_t max) {
  if (requested_ - taken_ <= max) return std::nullopt;
  const size_t slot = taken_++ % kMax;
  slots_[slot].wait_until_done();
  Arrived arrived{.of = steps_[slot], .report = {}};
  std::memcpy(&arrived.report, slots_[slot].data(), sizeof(StepReport));
  return arrived;
}

}  // namespace ventris
