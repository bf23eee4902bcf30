// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef VENTRIS_RACE_DETECTOR
#include <sanitizer/tsan_interface.h>
#endif

/// In builds with ThreadSanitizer every CUDA thread is a thread of its own to it, ordered after others by
/// what the functions here say and by nothing else; so it finds races inside of blocks and between them. In
/// other builds these functions do nothing.
namespace ventris::emulation {

#ifdef VENTRIS_RACE_DETECTOR
inline constexpr bool kRaceDetector = true;

/// What the calling thread did so far comes before what follows acquire() of the same address.
inline void release(void* address) {
  __tsan_release(address);
}
inline void acquire(void* address) {
  __tsan_acquire(address);
}

/// The view of one thread.
using Timeline = void*;
inline Timeline this_timeline() {
  return __tsan_get_current_fiber();
}
inline Timeline new_timeline() {
  return __tsan_create_fiber(0);
}
/// Stands directly before the switch of stacks.
inline void go_to(Timeline timeline) {
  __tsan_switch_to_fiber(timeline, __tsan_switch_to_fiber_no_sync);
}
#else
inline constexpr bool kRaceDetector = false;

inline void release(void*) {}
inline void acquire(void*) {}
using Timeline = void*;
inline Timeline this_timeline() {
  return nullptr;
}
inline Timeline new_timeline() {
  return nullptr;
}
inline void go_to(Timeline) {}
#endif

/// Races that have been reported since the program began, or since forget_races().
uint64_t races_found();
void forget_races();

}  // namespace ventris::emulation
