// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// "0.2.0"
std::string program_version();

/// "0123456789ab", or a text where it is unknown.
std::string program_commit();

/// "ventris 0.2.0 (commit 0123456789ab)"
std::string program_name_and_version();

}  // namespace ventris
