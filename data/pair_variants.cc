// SPDX-License-Identifier: Apache-2.0
#include "data/pair_variants.h"

#include <xxhash.h>

#include <algorithm>

#include "data/text/unicode.h"

namespace ventris::data {

namespace {

std::string titlecase(std::string_view line) {
  std::u32string text = unicode::decode(line);
  bool begins = true;
  for (char32_t& c : text) {
    if (begins) c = unicode::capital(c);
    begins = unicode::is_space(c);
  }
  return unicode::encode(text);
}

}  // namespace

VariantChoice::VariantChoice(const TrainingCorpus& corpus, uint64_t seed)
    : key_(XXH3_64bits_withSeed(corpus.name.data(), corpus.name.size(), seed)),
      lowercase_rate_(corpus.lowercase_rate),
      titlecase_rate_(corpus.titlecase_rate) {}

Variant VariantChoice::of(int64_t pair) const {
  const uint64_t bits = XXH3_64bits_withSeed(&pair, sizeof(pair), key_);
  constexpr double kUnit = 0x1p-53;
  const double uniform = static_cast<double>(bits >> 11) * kUnit;
  if (uniform < lowercase_rate_) return Variant::kLowercase;
  return uniform < lowercase_rate_ + titlecase_rate_ ? Variant::kTitlecase : Variant::kNone;
}

std::string variant_of(std::string_view line, Variant variant) {
  return variant == Variant::kLowercase   ? unicode::lower_utf8(line)
         : variant == Variant::kTitlecase ? titlecase(line)
                                          : std::string(line);
}

}  // namespace ventris::data
