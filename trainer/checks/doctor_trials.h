// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "trainer/checks/doctor_facts.h"

// Private to the files of the doctor.

namespace ventris {

class Communicator;
class Context;
struct ContextOptions;

/// Writes on rank 0, reads on all ranks, and removes the file. All ranks must call it. Returns the bytes of
/// the largest checkpoint in the folder, on rank 0.
int64_t try_folder(Communicator& communicator, const std::string& folder, RankFacts& facts);
/// Compares two training steps of the preset's model on a GPU with the CPU.
void try_steps(const ContextOptions& device, const std::string& preset, RankFacts& facts);
/// Sums over the ranks with memory of the context's device. All ranks must call it.
SumFacts try_sums(Communicator& communicator, Context& context);

}  // namespace ventris
