#pragma once

#include <string>

namespace ventris {

/// From now on an exception of want of memory or of threads that nobody catches, such as one in a thread of a
/// library, ends the process with one message and the code of docs/exit-codes.md instead of SIGABRT. Called
/// once, by main(), while there is memory.
void prepare_for_want_of_memory();

/// "out of memory: ..." with what the process has and may have, and what to try.
std::string out_of_memory_text();

}  // namespace ventris
