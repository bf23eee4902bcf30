// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

inline constexpr const char* kSaveTimeoutVariable = "VENTRIS_SAVE_TIMEOUT";

/// Seconds that a save may take, of the environment variable VENTRIS_SAVE_TIMEOUT, otherwise 1800; 0: no
/// limit. Throws Error(kUsage) if the variable is no such number.
double save_timeout();

}  // namespace ventris
