// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device/context.h"

namespace ventris {

class Communicator;
class MpiEnvironment;
class RunStatus;

/// The environment of a command.
struct Job {
  const MpiEnvironment& environment;
  Communicator& communicator;
  std::string command_line;  // as given, for the provenance of files
  RunStatus& status;         // of the training run, if the command is one

  bool speaks() const;             // this rank prints for the job
  std::string provenance() const;  // version, commit and command line
};

/// A context on `device` (auto, cpu or cuda) with `threads` CPU threads, or as many as the rank may use if 0.
/// All ranks must call it; they get the same kind of device, each its own CUDA device: auto means CUDA if it
/// is available on every rank, otherwise the CPU, with a message of the reason unless the program was built
/// without CUDA (launch/commands/device_notice.h). Throws Error(kUnavailable) with the reason and the first
/// affected rank if cuda is requested and does not work, and for auto if the job was meant to compute on GPUs
/// (comm/gpu_evidence.h).
///
/// The CPU's kernels are those of the largest instruction set that every rank may use
/// (backend/device/instruction_set.h): Adam runs on all of them, and its results must have the same bits.
/// Must be called before all operations.
std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads);

/// Messages on the standard error; only the rank that prints for the job writes them.
void say(const Job& job, const std::string& message);

}  // namespace ventris
