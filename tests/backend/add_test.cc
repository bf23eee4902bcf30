#include "backend/add.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/error.h"

namespace ventris {
namespace {

template <typename T>
Tensor flat(std::vector<T>& data) {
  const auto count = static_cast<int64_t>(data.size());
  return {data.data(), 1, count, count, DTypeOf<T>::value};
}

template <typename T>
class AddTest : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(AddTest, Types);

TYPED_TEST(AddTest, AddsAndCopiesAlsoInPlace) {
  using T = TypeParam;
  for (const size_t count : {1, 7, 64, 40'001}) {
    Context context({.threads = 3});
    std::vector<T> a(count);
    std::vector<T> b(count);
    std::vector<T> expected(count);
    for (size_t i = 0; i < count; ++i) {
      a[i] = std::sin(static_cast<T>(i));
      b[i] = T(1) / static_cast<T>(i + 3);
      expected[i] = a[i] + b[i];
    }
    std::vector<T> sum(count);
    add(context, {.a = flat(a), .b = flat(b), .sum = flat(sum)});
    EXPECT_EQ(sum, expected);
    add(context, {.a = flat(b), .sum = flat(sum)});
    EXPECT_EQ(sum, b);
    add(context, {.a = flat(a), .b = flat(sum), .sum = flat(sum)});
    EXPECT_EQ(sum, expected);
    add(context, {.a = flat(a), .b = flat(b), .sum = flat(a)});
    EXPECT_EQ(a, expected);
  }
}

TEST(Add, RefusesOtherShapesAndDtypes) {
  Context context({.threads = 1});
  std::vector<float> f(4);
  std::vector<float> longer(5);
  std::vector<double> d(4);
  EXPECT_THROW(add(context, {.a = flat(f), .b = flat(longer), .sum = flat(f)}), Error);
  EXPECT_THROW(add(context, {.a = flat(longer), .sum = flat(f)}), Error);
  EXPECT_THROW(add(context, {.a = flat(f), .b = flat(d), .sum = flat(f)}), Error);
}

}  // namespace
}  // namespace ventris
