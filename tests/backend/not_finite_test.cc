#include "backend/not_finite.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/compare.h"

namespace ventris {
namespace {

using testing::Buffer;

NotFinitePlaces places_in(const Buffer& values, const Buffer& gradients, int32_t wanted = 1) {
  Context context({.scratch_bytes = 256});
  NotFinitePlaces places{7, 7};
  find_not_finite(
      context,
      {.values = values.view(), .gradients = gradients.view(), .wanted = &wanted, .places = &places});
  return places;
}

TEST(FindNotFinite, GivesTheFirstValueAndTheLastGradient) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const int64_t n : {1, 17, 70001}) {
      Buffer values = Buffer::random(1, n, dtype, 3);
      Buffer gradients = Buffer::random(1, n, dtype, 4);
      EXPECT_EQ(places_in(values, gradients).first_value, -1);
      EXPECT_EQ(places_in(values, gradients).last_gradient, -1);
      values.set(n - 1, -INFINITY);
      gradients.set(0, NAN);
      EXPECT_EQ(places_in(values, gradients).first_value, n - 1);
      EXPECT_EQ(places_in(values, gradients).last_gradient, 0);
      values.set(n / 2, NAN);
      gradients.set(n / 2, INFINITY);
      EXPECT_EQ(places_in(values, gradients).first_value, n / 2);
      EXPECT_EQ(places_in(values, gradients).last_gradient, n / 2);
    }
  }
}

TEST(FindNotFinite, LooksForNothingWhereNothingIsWanted) {
  Buffer bad(1, 3, DType::kF32);
  bad.set(1, NAN);
  const NotFinitePlaces places = places_in(bad, bad, 0);
  EXPECT_EQ(places.first_value, -1);
  EXPECT_EQ(places.last_gradient, -1);
}

}  // namespace
}  // namespace ventris
