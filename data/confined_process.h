#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace ventris::data {

struct ConfinedLimits {
  size_t memory_bytes;  // that may be added to what the process has
  unsigned cpu_seconds;
  size_t answer_bytes;
};

struct ConfinedAnswer {
  bool complete = false;
  std::string text;  // the answer, or why there is none
};

/// Runs `work` in a child process (fork without exec) and returns its answer, for code of a library that may
/// crash on hostile input. The child has no file of this process but the pipe of its answer, can open one
/// file and write none, prints nothing, dies silently, and never returns from here. `work` may call no MPI,
/// no CUDA, no thread and no stdio; locks that it needs are held by the caller. Throws DataError kIo where no
/// process can be made.
ConfinedAnswer run_confined(const ConfinedLimits& limits, const std::function<std::string()>& work);

}  // namespace ventris::data
