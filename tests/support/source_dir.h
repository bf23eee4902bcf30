// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris::testing {

/// The root of the tree whose files the tests read: the environment variable VENTRIS_SOURCE_DIR, or the tree
/// that was built. One object file alone knows the latter: a compiler's cache serves all others to every copy
/// of the tree.
std::string source_dir();

}  // namespace ventris::testing
