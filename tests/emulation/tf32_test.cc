// SPDX-License-Identifier: Apache-2.0
// Products of f32 that round their factors to TF32, if and only if the context says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/ops/gemm_choices.h"
#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

/// The nearest number with 10 bits of mantissa: to 11 significant bits.
double rounded_to_tf32(double x) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
}

class CudaTf32 : public ::testing::Test {
 protected:
  void TearDown() override { use_tf32(cuda_context(), false); }
  Buffer product(GemmProduct& p, bool tf32) const {
    use_tf32(cuda_context(), tf32);
    p.on_device();
    return p.device_result.get();
  }
};

TEST_F(CudaTf32, RoundsTheFactorsOfProductsInF32IfAskedFor) {
  GemmProduct p({.m = 24, .n = 40, .k = 96}, DType::kF32);
  Buffer a = p.a, b = p.b;
  for (Buffer* factor : {&a, &b}) {
    for (int64_t i = 0; i < factor->size(); ++i) factor->set(i, rounded_to_tf32(factor->get(i)));
  }
  p.on_cpu();
  Buffer rounded = p.result;
  gemm(cpu_context(), {.a = a.view(), .b = b.view(), .c = rounded.view()});
  double difference = 0.0;
  for (int64_t i = 0; i < rounded.size(); ++i)
    difference = std::max(difference, std::abs(rounded.get(i) - p.result.get(i)));
  ASSERT_GT(difference, 1e-4) << "the test could not tell them apart";
  expect_close("f32", product(p, false), to_doubles(p.result), {1e-6, 1e-6});
  expect_close("tf32", product(p, true), to_doubles(rounded), {1e-6, 1e-6});
  expect_close("f32 again", product(p, false), to_doubles(p.result), {1e-6, 1e-6});
}

TEST_F(CudaTf32, LeavesProductsOfBf16AsTheyAre) {
  GemmProduct p({.m = 24, .n = 40, .k = 96}, DType::kBF16);
  const Buffer expected = product(p, false);
  expect_same_bits("c", product(p, true), expected);
}

TEST_F(CudaTf32, ItsChoicesOfAlgorithmsAreOthersThanThoseOfF32) {
  const GemmCase c{.m = 64, .n = 64, .k = 320};
  const auto choices_of = [&](DType dtype, bool tf32) {
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    use_tf32(context, tf32);
    GemmProduct p(c, dtype);
    p.on_device(context);
    EXPECT_EQ(cudaStreamSynchronize(cuda::stream_of(context)), cudaSuccess);
    return gemm_choices(context);
  };
  EXPECT_NE(choices_of(DType::kF32, false).find("\nf32 f32 nn m 64"), std::string::npos);
  EXPECT_NE(choices_of(DType::kF32, true).find("\ntf32 f32 nn m 64"), std::string::npos);
  EXPECT_EQ(choices_of(DType::kF32, true).find("\nf32"), std::string::npos);
  EXPECT_EQ(choices_of(DType::kBF16, true), choices_of(DType::kBF16, false));
}

}  // namespace
}  // namespace ventris::testing
