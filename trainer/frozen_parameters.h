// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "model/parameters.h"

namespace ventris {

/// Freezes the parameters of a store, after its declarations, whose name, with or without "/model/" before
/// it, matches one of the globs of train --freeze: those of fnmatch(3), in which * also matches slashes.
/// Throws Error(kBadConfiguration) for a glob that matches no parameter, and if no parameter would be
/// trained.
void freeze_parameters(const std::vector<std::string>& globs, ParameterStore& store);

}  // namespace ventris
