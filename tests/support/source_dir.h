#pragma once

#include <string>

namespace ventris::testing {

/// The root of the tree that was built. One object file alone knows it: a compiler's cache serves all others
/// to every copy of the tree.
std::string source_dir();

}  // namespace ventris::testing
