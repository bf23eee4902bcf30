// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

/// The files of all sets of validation pairs.
std::vector<PairFiles> all_valid_files(const PrepareOptions& options);

/// Refuses options that contradict each other or cannot be met, before anything is read. Errors: DataError
/// kUsage, kBadConfiguration, kCannotCreate for an output that cannot have its name.
void check_options(const PrepareOptions& options);

/// Throws DataError kIo if the disk of the output has less room than the corpus needs at the very least: an
/// id for each 16 bytes of input, which is a quarter of what usual text needs, with its text half the bytes
/// of the input, and all of the file that is appended to. `input_bytes` as they are on the disk.
void check_room(const PrepareOptions& options, int64_t input_bytes);

}  // namespace ventris::data
