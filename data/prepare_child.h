// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

/// Runs `work` in a child process (fork without exec) and returns what it returns, so that the system gets
/// back all memory that the work took. For a process of one thread. The last that the work gave to its
/// argument goes to `progress` of this process, twice a second and at the end. The child ends together with
/// this process. A DataError of the work is thrown here, and if it ends the process by exit(), as
/// SentencePiece does, DataError kBadData with `reason_of_exit`; a child that is killed, or finds no memory,
/// is kUnavailable.
using ProgressCall = std::function<void(const PrepareProgress&)>;
std::string run_in_child(const std::function<std::string(const ProgressCall&)>& work,
                         const ProgressCall& progress, const std::string& reason_of_exit);

}  // namespace ventris::data
