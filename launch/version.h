// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// Version, commit and what the program was built with, one line each, as --version prints them.
std::string version_text();
/// The same as one JSON object: null for what the program was built without.
std::string version_json();

}  // namespace ventris
