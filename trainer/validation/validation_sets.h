// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/corpus.h"

namespace ventris {

/// A set of sentence pairs to validate on.
struct ValidationSet {
  std::string name;
  data::SentencePairs pairs;
  std::function<std::string(int64_t pair)> reference;  // the raw line
  std::function<std::string(int64_t pair)> source;     // likewise; as its tokens spell it if it was not kept
};

/// Whether a run has pairs to validate on.
bool has_validation_pairs(const data::Corpus& corpus);

/// The validation sets of a corpus file that have pairs. The first decides which model is the best.
class ValidationSets {
 public:
  /// The corpus must outlive the object.
  explicit ValidationSets(const data::Corpus& corpus);

  bool empty() const { return sets_.empty(); }
  const std::vector<ValidationSet>& all() const { return sets_; }
  /// Of all sets.
  int64_t pairs() const;
  /// Up to 1000 references of the set that decides.
  std::vector<std::string> first_references() const;

 private:
  std::vector<ValidationSet> sets_;
};

}  // namespace ventris
