// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>

#include "data/corpus.h"

namespace ventris::data {

/// The whole of a set as one corpus.
inline CorpusPart part_of(const SentencePairs& pairs, const std::string& name) {
  CorpusPart part{.name = name,
                  .pairs = pairs.size(),
                  .source_tokens = pairs.source.total_tokens(),
                  .target_tokens = pairs.target.total_tokens()};
  for (int64_t i = 0; i < pairs.size(); ++i) {
    part.longest_source = std::max(part.longest_source, pairs.source.length(i));
    part.longest_target = std::max(part.longest_target, pairs.target.length(i));
  }
  return part;
}

}  // namespace ventris::data
