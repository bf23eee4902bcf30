// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

std::vector<std::string> paths_of(const std::vector<PairFiles>& files);
/// The files of all sets of validation pairs.
std::vector<PairFiles> all_valid_files(const PrepareOptions& options);

/// Refuses options that contradict each other or cannot be met, before anything is read. Errors: DataError
/// kUsage, kBadConfiguration, kCannotCreate for an output that cannot have its name.
void check_options(const PrepareOptions& options);

}  // namespace ventris::data
