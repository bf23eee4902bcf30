// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// From now on an uncaught exception for lack of memory or threads, such as one in a thread of a library,
/// ends the process with one message and the code of docs/exit-codes.md instead of SIGABRT. Must be called
/// once, by main(), while there is memory.
void install_out_of_memory_handler();

/// "out of memory: ..." with the memory used and permitted, and what to try.
std::string out_of_memory_text();

}  // namespace ventris
