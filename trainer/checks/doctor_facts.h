#pragma once

#include <string>

#include "trainer/checks/doctor.h"

// Private to the files of the doctor.

namespace ventris {

class Context;

/// The facts of a rank as one JSON object, and back.
std::string to_json(const RankFacts& facts);
RankFacts rank_facts_from_json(const std::string& json);

/// The facts that a rank can find without the others.
void look_at_host(RankFacts& facts);
/// Bytes a second of a copy in memory.
double copy_rate();
/// Offset of this rank's clock to that of rank 0. All ranks must call it.
void compare_clocks(Communicator& communicator, RankFacts& facts);
/// Writes on rank 0, reads on all ranks, and removes the file. All ranks must call it. Returns the bytes of
/// the largest checkpoint in the folder, on rank 0.
int64_t try_folder(Communicator& communicator, const std::string& folder, RankFacts& facts);
/// Sums over the ranks with memory of the context's device. All ranks must call it.
SumFacts try_sums(Communicator& communicator, Context& context);

}  // namespace ventris
