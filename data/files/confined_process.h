#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace ventris::data {

/// Bytes of addresses that this process uses, or 0 where the system does not tell. Takes no memory.
size_t address_space_bytes();
/// Whether the limits of this process (on addresses, on data) allow that many bytes of memory more. Takes no
/// memory, and asks for none that would have to be there.
bool has_room(size_t bytes);

inline constexpr int kConfinedInput = 0;

struct ConfinedLimits {
  int input;            // a descriptor that the child has too, as kConfinedInput; -1: none
  size_t memory_bytes;  // that may be added to what the process has
  unsigned cpu_seconds;
  size_t answer_bytes;
  std::chrono::milliseconds patience;  // a child that has not answered by then is ended
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
/// in the child. The child has no file of this process but the input and the pipe of its answer, can open one
/// file and write none, prints nothing, dies silently and with this process, is ended by no signal that
/// others send but SIGKILL and those of crashes, and never returns from here. `work` may start no thread and
/// use no stdio. Throws DataError kIo where no process can be made, or none with the descriptors that it
/// needs.
ConfinedAnswer run_confined(const ConfinedLimits& limits, const std::function<std::string()>& work);

}  // namespace ventris::data
