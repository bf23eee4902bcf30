// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/support/weighted_corpus.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file as two corpora, "clean", the first 80, and "bt", the others, and returns
/// the path.
inline std::string make_mixed_corpus(const std::string& of, const std::string& path) {
  return copy_corpus(of, path, {{"clean", 80}, {"bt", data::Corpus(of).train().size()}});
}

}  // namespace ventris::testing
