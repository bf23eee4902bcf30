#pragma once

#include <string>

namespace ventris {

class Communicator;

// The libraries and instructions that a run computes with. Numbers may differ in their last bits between two
// environments, so config.json and checkpoints record theirs.

/// One JSON object of texts: instruction_set (what oneDNN uses, DNNL_MAX_CPU_ISA counted), kernels
/// (backend/instruction_set.h), onednn, compiler, mpi and cuda. Where the ranks differ, all values in the
/// order of ranks, with " and " between them. All ranks call it.
std::string run_environment(Communicator& communicator);

/// "instruction set from AVX-512 to AVX2; MPI from ... to ..."; "" where nothing changed, or `before` is "",
/// as files of earlier versions have it, or no such object.
std::string environment_changes(const std::string& before, const std::string& now);

}  // namespace ventris
