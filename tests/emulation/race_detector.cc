// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/race_detector.h"

#include <atomic>

namespace ventris::emulation {
namespace {

std::atomic<uint64_t> found = 0;

}  // namespace

uint64_t races_found() {
  return found;
}
void forget_races() {
  found = 0;
}

}  // namespace ventris::emulation

#ifdef VENTRIS_RACE_DETECTOR
/// ThreadSanitizer calls it for every report.
extern "C" void __tsan_on_report(void*);  // NOLINT(bugprone-reserved-identifier)
extern "C" void __tsan_on_report(void*) {
  ++ventris::emulation::found;
}
#endif
