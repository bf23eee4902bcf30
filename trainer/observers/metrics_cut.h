// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris {

/// Removes from metrics.jsonl of a run folder the lines of steps after `last_step` (-1: all), if that step
/// must be validated again also those of its validation, lines longer than the program writes, and damaged
/// lines, without a step, that no line follows which stays. The file is truncated, or replaced by a copy if
/// lines that stay follow others; either is atomic. A file that lacks nothing is not touched; a missing one
/// becomes an empty one. Returns the largest step of the lines that were removed, or `last_step`.
///
/// Throws Error(kIo, kCannotCreate), data::DataError, and data::NewerFormat if a line is of a later version
/// of the program; then nothing was changed.
int64_t cut_metrics(const std::string& path, int64_t last_step, bool validates_last_step);

}  // namespace ventris
