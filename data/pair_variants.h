// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

enum class Variant : uint8_t { kNone, kLowercase, kTitlecase };

/// Chooses the pairs of a corpus that are replaced by a variant: each by a random number that depends on the
/// seed, the name of the corpus and the pair's position in it alone.
class VariantChoice {
 public:
  VariantChoice(const TrainingCorpus& corpus, uint64_t seed);
  Variant of(int64_t pair) const;

 private:
  uint64_t key_;
  double lowercase_rate_;
  double titlecase_rate_;
};

/// The variant of a line: in lower case; or with a capital at the beginning of each word, all else unchanged.
std::string variant_of(std::string_view line, Variant variant);

}  // namespace ventris::data
