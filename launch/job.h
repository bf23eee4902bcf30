#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/context.h"

namespace ventris {

class Communicator;
class MpiEnvironment;
class RunStatus;

/// What a command runs in.
struct Job {
  const MpiEnvironment& environment;
  Communicator& communicator;
  std::string command_line;  // as given, for the provenance of files
  RunStatus& status;         // of the training run, if the command is one

  bool speaks() const;             // this rank prints for the job
  std::string provenance() const;  // version, commit and command line
};

/// A context on `device` (auto, cpu or cuda) with `threads` CPU threads, or as many as the rank may use if 0.
/// All ranks call it and come to the same kind of device, and each to a CUDA device of its own: auto means
/// CUDA where it is available on every rank, and else the CPU, and then says why unless the program was built
/// without CUDA. Throws Error(kUnavailable) where cuda is asked for and does not work, with the reason and
/// the first rank that has it.
///
/// The CPU's kernels are those of `isa` (backend/instruction_set.h), with auto the greatest that every rank
/// would take by itself: Adam runs on all of them, and its results must have the same bits. To be called
/// before all operations.
std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads,
                                      const std::string& isa);

/// Text for people, on the standard error; only the rank that speaks prints.
void say(const Job& job, const std::string& message);

}  // namespace ventris
