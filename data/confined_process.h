#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace ventris::data {

/// Bytes of addresses that this process uses, or 0 where the system does not tell. Takes no memory.
size_t address_space_bytes();
/// Whether the limits of this process (on addresses, on data) allow so many bytes of memory more. Takes no
/// memory, and asks for none that would have to be there.
bool has_room(size_t bytes);
/// For libraries that crash, or blame the file, where memory is short. Throws DataError kUnavailable unless
/// has_room(bytes).
void require_room(size_t bytes, const std::string& path);

inline constexpr int kConfinedInput = 0;

struct ConfinedLimits {
  int input;            // a descriptor that the child has too, as kConfinedInput; -1: none
  size_t memory_bytes;  // that may be added to what the process has
  unsigned cpu_seconds;
  size_t answer_bytes;
  /// How long each attempt may take: a child that has not answered by then is ended and another one made. A
  /// child has only the thread that forked; a lock that another thread held at that moment stays locked in
  /// it. The C library frees the locks of its own allocator in the child, that of a sanitizer may not. Work
  /// that only waits for a processor gets more time with each attempt.
  std::vector<std::chrono::milliseconds> patience = {std::chrono::seconds(10), std::chrono::seconds(30),
                                                     std::chrono::seconds(120)};
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
/// crash on hostile input. The child has no file of this process but the input and the pipe of its answer,
/// can open one file and write none, prints nothing, dies silently and with this process, is ended by no
/// signal that others send but SIGKILL and those of crashes, and never returns from here. `work` may call no
/// MPI, no CUDA, no thread and no stdio; locks that it needs are held by the caller. It may run more than
/// once, each time in a child of its own: after a child that did not answer (ConfinedLimits::patience), and
/// once after one that was ended from outside, as by a system that is out of memory. Throws DataError kIo
/// where no process can be made, or none with the descriptors that it needs.
ConfinedAnswer run_confined(const ConfinedLimits& limits, const std::function<std::string()>& work);

}  // namespace ventris::data
