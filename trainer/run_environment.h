// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

class Communicator;

// The libraries and instructions that a run computes with. Numbers may differ in their last bits between two
// environments, so config.json and checkpoints record theirs.

/// One JSON object of texts: instruction_set (as used by oneDNN, including DNNL_MAX_CPU_ISA), kernels
/// (backend/device/instruction_set.h), onednn, compiler, mpi and cuda. If the ranks differ, all values in the
/// order of ranks, joined by " and ". All ranks must call it.
std::string run_environment(Communicator& communicator);

/// "instruction set from AVX-512 to AVX2; mpi from ... to ..."; "" if nothing changed, or `before` is ""
/// or not such an object.
std::string environment_changes(const std::string& before, const std::string& now);

}  // namespace ventris
