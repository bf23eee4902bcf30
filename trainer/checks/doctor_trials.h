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
/// Runs the self-test at small shapes on a device.
void try_kernels(const ContextOptions& device, RankFacts& facts);
/// Sums over the ranks with memory of the context's device. All ranks must call it.
SumFacts try_sums(Communicator& communicator, Context& context);

}  // namespace ventris
