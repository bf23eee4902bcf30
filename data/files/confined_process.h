// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace ventris::data {

/// Bytes of address space that this process uses, or 0 if unknown. Allocates no memory.
size_t address_space_bytes();
/// Whether the limits of this process (on address space and data) allow `bytes` more. Allocates no memory,
/// and requests none that must be physically present.
bool has_room(size_t bytes);

inline constexpr int kConfinedInput = 0;

struct ConfinedLimits {
  int input;            // a descriptor for the child, as kConfinedInput; -1: none
  size_t memory_bytes;  // in addition to those of the process
  unsigned cpu_seconds;
  size_t answer_bytes;
  std::chrono::milliseconds patience;  // a child without an answer by then is killed
};

struct ConfinedAnswer {
  bool complete = false;
  std::string text;  // the answer, or why there is none
  /// The signal from outside that ended the child, or 0: then the file is not to blame.
  int killed_by = 0;
  /// The process's own limits on its memory (ulimit -v, -d) allowed less than `memory_bytes`: where the
  /// answer is not complete, the file may be sound.
  bool cramped = false;
  /// The same of the limit on the processor's time (ulimit -t) and `cpu_seconds`.
  bool short_of_time = false;
};

/// Runs `work` in a child process (fork without exec) and returns its answer, for code of a library that may
/// crash on hostile input. For a process of one thread, since what another one holds at the fork stays locked
/// in the child. The child has no file of this process except the input and the pipe of its answer, can open
/// one file and write none, prints nothing, ends silently and together with this process, is ended by no
/// signal of others except SIGKILL and those of crashes, and never returns from here. `work` must not start
/// threads or use stdio. Throws DataError kIo if no process can be created, or none with the necessary
/// descriptors.
ConfinedAnswer run_confined(const ConfinedLimits& limits, const std::function<std::string()>& work);

}  // namespace ventris::data
