// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "backend/cpu_kernels.h"
#include "backend/packed_gemm.h"
#include "tests/support/device_buffer.h"

namespace ventris {
namespace {

using testing::Buffer;

struct SparsePackedCase {
  int64_t m;
  int64_t n;
  int64_t k;
  double density;
  bool bias = false;
  bool relu = false;
  bool accumulate = false;
};

/// A packed product whose first factor has few elements other than zero.
class PackedOperands {
 public:
  explicit PackedOperands(const SparsePackedCase& form, double scale = 1.0)
      : form_(form),
        a_(Buffer::random(form.m, form.k, DType::kF32, 1)),
        b_(Buffer::random(form.k, form.n, DType::kF32, 2)),
        bias_(Buffer::random(1, form.n, DType::kF32, 3)),
        before_(Buffer::random(form.m, form.n, DType::kF32, 4)),
        arena_(Device::kCpu, packed_bytes(form.k, form.n, Packing::kF32)) {
    std::mt19937 generator(7);
    for (int64_t i = 0; i < a_.size(); ++i) {
      const bool kept = std::generate_canonical<double, 32>(generator) < form.density;
      a_.set(i, kept ? a_.get(i) * scale : (i % 3 == 0 ? -0.0 : 0.0));
    }
    for (int64_t i = 0; i < b_.size(); ++i) b_.set(i, b_.get(i) * scale);
    if (scale != 1.0) {
      for (int64_t i = 0; i < before_.size(); ++i) before_.set(i, i % 2 == 0 ? -0.0 : 0.0);
    }
  }

  Buffer& b() { return b_; }
  const Buffer& before() const { return before_; }

  PackedGemmArgs args(Context& context, Buffer& c) {
    if (!packed_.data) {
      packed_ = {arena_.allocate(packed_bytes(form_.k, form_.n, Packing::kF32)), form_.k, form_.n};
      pack(context, {.source = b_.view(), .to = packed_});
      packed_.finite = is_finite(context, b_.view());
    }
    return {.a = a_.view(),
            .b = packed_,
            .c = c.view(),
            .bias = form_.bias ? bias_.view() : ConstTensor{},
            .relu = form_.relu,
            .accumulate = form_.accumulate};
  }

  /// The chain of all terms, or without those of a zero of a.
  float expected(int64_t row, int64_t col, bool skips_zeros = false) const {
    float sum = form_.accumulate ? static_cast<float>(before_.get(row, col)) : 0.0F;
    for (int64_t k = 0; k < form_.k; ++k) {
      const auto x = static_cast<float>(a_.get(row, k));
      if (x != 0.0F || !skips_zeros) sum = std::fma(x, static_cast<float>(b_.get(k, col)), sum);
    }
    if (form_.bias) sum += static_cast<float>(bias_.get(col));
    return form_.relu && sum < 0.0F ? 0.0F : sum;
  }

 private:
  SparsePackedCase form_;
  Buffer a_;
  Buffer b_;
  Buffer bias_;
  Buffer before_;
  Arena arena_;
  PackedMatrix packed_;
};

bool are_same_bits(float x, float y) {
  return std::memcmp(&x, &y, sizeof(x)) == 0;
}

void expect_bits_of_all_terms(PackedOperands& o, int threads) {
  Context context({.threads = threads});
  Buffer c = o.before();
  ASSERT_TRUE(cpu_kernels().sparse_packed_gemm(context, o.args(context, c)));
  int64_t different = 0;
  const ConstTensor view = c.view();
  for (int64_t row = 0; row < view.rows; ++row) {
    for (int64_t col = 0; col < view.cols; ++col)
      different += are_same_bits(static_cast<float>(c.get(row, col)), o.expected(row, col)) ? 0 : 1;
  }
  EXPECT_EQ(different, 0);
}

TEST(SparsePackedGemm, HasTheBitsOfAllMultiplications) {
  const SparsePackedCase cases[] = {{1, 128, 300, 0.05},
                                    {3, 512, 2048, 0.04, true},
                                    {5, 200, 513, 0.2, true, true},
                                    {64, 130, 256, 0.1, false, false, true},
                                    {97, 257, 700, 0.01, true},
                                    {401, 128, 257, 0.3}};
  for (const SparsePackedCase& form : cases) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(form.m) + " x " + std::to_string(form.n) + " x " + std::to_string(form.k) +
                   " on " + std::to_string(threads));
      PackedOperands o(form);
      expect_bits_of_all_terms(o, threads);
    }
  }
}

// A sum of terms that are too small for f32 is a zero with a sign, which a term of zero may change.
TEST(SparsePackedGemm, ZerosHaveTheSignOfAllTerms) {
  for (const bool accumulate : {false, true}) {
    PackedOperands o({30, 128, 300, 0.02, false, false, accumulate}, 1e-30);
    int64_t changed = 0;
    for (int64_t i = 0; i < 128; ++i)
      changed += are_same_bits(o.expected(0, i), o.expected(0, i, true)) ? 0 : 1;
    ASSERT_GT(changed, 0);
    expect_bits_of_all_terms(o, 2);
  }
}

// Zero times infinity is not zero.
TEST(SparsePackedGemm, FactorsThatAreNotFiniteAreMultipliedByZerosToo) {
  for (const float value :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Context context({.threads = 1});
    PackedOperands o({30, 128, 300, 0.02});
    o.b().set(40 * 128 + 5, value);
    Buffer c = o.before();
    const PackedGemmArgs args = o.args(context, c);
    EXPECT_FALSE(args.b.finite);
    EXPECT_FALSE(cpu_kernels().sparse_packed_gemm(context, args));
    packed_gemm(context, args);
    for (int64_t row = 0; row < 30; ++row) {
      EXPECT_FALSE(std::isfinite(c.get(row, 5)));
      EXPECT_TRUE(are_same_bits(static_cast<float>(c.get(row, 6)), o.expected(row, 6)));
    }
  }
}

TEST(SparsePackedGemm, LeavesTheRestToOthers) {
  Context context({.threads = 1});
  PackedOperands full({30, 128, 300, 0.9});
  PackedOperands narrow({30, 3, 300, 0.2});
  for (PackedOperands* o : {&full, &narrow}) {
    Buffer c = o->before();
    EXPECT_FALSE(cpu_kernels().sparse_packed_gemm(context, o->args(context, c)));
    EXPECT_EQ(std::memcmp(c.view().data, o->before().view().data, static_cast<size_t>(c.size()) * 4), 0);
  }
}

}  // namespace
}  // namespace ventris
