#include "backend/add.h"

#include <gtest/gtest.h>

#include <vector>

#include "backend/error.h"

namespace ventris {
namespace {

template <typename T>
Tensor flat(std::vector<T>& data) {
  const auto count = static_cast<int64_t>(data.size());
  return {data.data(), 1, count, count, DTypeOf<T>::value};
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
