// SPDX-License-Identifier: Apache-2.0
#include "backend/device/stopwatch.h"

#include "backend/device/has_cuda.h"
#include "backend/device/profile_cuda.h"

namespace ventris {
namespace {

constexpr size_t kStart = 0;  // marks of the timeline
constexpr size_t kStop = 1;

}  // namespace

Stopwatch::Stopwatch(Context& context) : timeline_{nullptr, [](CudaTimeline*) {}} {
  if constexpr (kHasCuda) {
    if (context.device() != Device::kCuda) return;
    timeline_ = make_timeline_cuda(context.cuda());
    prepare_cuda(*timeline_, 2);
  }
}

void Stopwatch::start() {
  if constexpr (kHasCuda) {
    if (timeline_) record_cuda(*timeline_, kStart);
  }
}

void Stopwatch::stop() {
  if constexpr (kHasCuda) {
    if (timeline_) record_cuda(*timeline_, kStop);
    stopped_ = true;
  }
}

double Stopwatch::seconds() {
  if constexpr (kHasCuda) {
    if (timeline_ && stopped_) return seconds_between_cuda(*timeline_, kStart, kStop);
  }
  return 0.0;
}

}  // namespace ventris
