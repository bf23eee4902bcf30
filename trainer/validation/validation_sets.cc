// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation/validation_sets.h"

#include <algorithm>

namespace ventris {

bool has_validation_pairs(const data::Corpus& corpus) {
  return std::ranges::any_of(corpus.valid_sets(), [](const auto& set) { return set.pairs.size() > 0; });
}

ValidationSets::ValidationSets(const data::Corpus& corpus) {
  for (const data::CorpusValidSet& set : corpus.valid_sets()) {
    if (set.pairs.size() == 0) continue;
    const auto number = static_cast<size_t>(&set - corpus.valid_sets().data());
    sets_.push_back({.name = set.name,
                     .pairs = set.pairs,
                     .reference = [&corpus, number](int64_t i) { return corpus.valid_reference(i, number); },
                     .source = [&corpus, number](int64_t i) { return corpus.valid_source(i, number); }});
  }
}

int64_t ValidationSets::pairs() const {
  int64_t pairs = 0;
  for (const ValidationSet& set : sets_) pairs += set.pairs.size();
  return pairs;
}

std::vector<std::string> ValidationSets::first_references() const {
  constexpr int64_t kEnough = 1000;
  std::vector<std::string> references;
  if (sets_.empty()) return references;
  const ValidationSet& first = sets_.front();
  for (int64_t i = 0; i < std::min(first.pairs.size(), kEnough); ++i)
    references.push_back(first.reference(i));
  return references;
}

}  // namespace ventris
