// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/device/context.h"

namespace ventris {

class Communicator;
class ModelSet;
class MpiEnvironment;
class RunStatus;

/// The environment of a command.
struct Job {
  const MpiEnvironment& environment;
  Communicator& communicator;
  std::string command_line;  // as given, for the provenance of files
  RunStatus& status;         // of the training run, if the command is one

  bool is_rank_zero() const;       // this rank prints for the job
  std::string provenance() const;  // version, commit and command line
};

/// A context on `device` (auto, cpu or cuda) with `threads` CPU threads, or as many as the rank may use if 0.
/// All ranks must call it; they get the same kind of device, each its own CUDA device: auto means CUDA if it
/// is available on every rank, otherwise the CPU, with a message of the reason unless the program was built
/// without CUDA (say_if_built_without_cuda()). Throws Error(kUnavailable) with the reason and the first
/// affected rank if cuda is requested and does not work, and for auto if the job was meant to compute on GPUs
/// (comm/rank_device.h).
///
/// The CPU's kernels are those of the largest instruction set that every rank may use
/// (backend/device/instruction_set.h): Adam runs on all of them, and its results must have the same bits.
/// Must be called before all operations.
std::unique_ptr<Context> make_context(const Job& job, const std::string& device, int threads);

/// Messages on the standard error; only the rank that prints for the job writes them.
void say(const Job& job, const std::string& message);

/// For commands that compute for long, after make_context(): with --device auto, says that the program was
/// built without CUDA and computes on the CPU. Other reasons for the CPU are told by make_context().
void say_if_built_without_cuda(const Job& job, const std::string& device);

/// Compares the bytes of the models' files over the ranks, on which their names may differ. Throws
/// Error(kRanksDisagree) with both values on every rank.
void check_same_models_on_all_ranks(Communicator& communicator, const ModelSet& models);

}  // namespace ventris
