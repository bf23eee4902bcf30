// SPDX-License-Identifier: Apache-2.0
#include "data/pair_variants.h"

#include <gtest/gtest.h>

namespace ventris::data {
namespace {

TEST(PairVariantsTest, VariantsOfALine) {
  EXPECT_EQ(variant_of("Ärger MIT ÉTÉ", Variant::kLowercase), "ärger mit été");
  EXPECT_EQ(variant_of("ärger mit  étÉ, ßa 3d", Variant::kTitlecase), "Ärger Mit  ÉtÉ, ßa 3d");
  EXPECT_EQ(variant_of("σαν კარი åland", Variant::kTitlecase), "Σαν კარი Åland");
  EXPECT_EQ(variant_of("Any Text", Variant::kNone), "Any Text");
}

TEST(PairVariantsTest, RatesAreKeptAndTheChoiceDependsOnNameSeedAndPlace) {
  const TrainingCorpus corpus{.name = "a", .files = {}, .lowercase_rate = 0.3, .titlecase_rate = 0.1};
  TrainingCorpus other = corpus;
  other.name = "b";
  const VariantChoice choice(corpus, 1);
  const VariantChoice of_other_name(other, 1);
  const VariantChoice of_other_seed(corpus, 2);
  constexpr int kPairs = 20000;
  int lower = 0;
  int title = 0;
  int same_as_name = 0;
  int same_as_seed = 0;
  for (int i = 0; i < kPairs; ++i) {
    const Variant variant = choice.of(i);
    EXPECT_EQ(variant, choice.of(i));
    lower += variant == Variant::kLowercase ? 1 : 0;
    title += variant == Variant::kTitlecase ? 1 : 0;
    same_as_name += variant == of_other_name.of(i) ? 1 : 0;
    same_as_seed += variant == of_other_seed.of(i) ? 1 : 0;
  }
  EXPECT_NEAR(lower, 0.3 * kPairs, 300);  // 4.6 standard deviations
  EXPECT_NEAR(title, 0.1 * kPairs, 200);
  const double by_chance = 0.3 * 0.3 + 0.1 * 0.1 + 0.6 * 0.6;
  EXPECT_NEAR(same_as_name, by_chance * kPairs, 350);
  EXPECT_NEAR(same_as_seed, by_chance * kPairs, 350);
}

}  // namespace
}  // namespace ventris::data
