// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris {

/// Cuts metrics.jsonl of a run folder behind the lines of steps up to `last_step` (-1: none), from the end
/// backwards: what comes before the last line of an earlier step is not read. Damaged lines behind it are
/// dropped, also those without a step. If that step must be validated again, the lines of its validation are
/// dropped too: then the file is replaced by a copy if others follow them, otherwise it is only truncated;
/// either is atomic. A file that lacks nothing is not touched; a missing one becomes an empty one. Returns
/// the largest step of the lines that were dropped, or `last_step`.
///
/// Throws Error(kIo, kCannotCreate), data::DataError, and data::NewerFormat if one of the lines that were
/// read is of a later version of the program; then nothing was changed.
int64_t cut_metrics(const std::string& path, int64_t last_step, bool validates_last_step);

}  // namespace ventris
