// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/packed_gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/packed_matrices.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::Buffer;
using testing::tolerance_of;

struct PackedCase {
  int64_t m;
  int64_t n;
  int64_t k;
  bool bias = false;
  bool relu = false;
};

class PackedGemm : public ::testing::TestWithParam<Packing> {
 protected:
  PackedMatrix packed(const Buffer& source, bool transpose, int64_t columns) {
    return matrices_.make(context_, GetParam(), source, transpose, columns);
  }

  const DType dtype_ = factor_dtype(GetParam());
  Context context_{{.threads = 2}};
  testing::PackedMatrices matrices_;
};
/// int8_gemm_test.cc has the definition of the others.
class PackedGemmOfFloats : public PackedGemm {};

double rounded_to(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  return static_cast<double>(dtype == DType::kBF16 ? static_cast<float>(BF16(single)) : single);
}

TEST_P(PackedGemmOfFloats, AgreesWithTheDefinition) {
  const PackedCase cases[] = {{1, 1, 1},          {1, 64, 128, true},      {5, 7, 3, true, true},
                              {6, 65, 129, true}, {7, 31, 2, false, true}, {13, 130, 257, true, true},
                              {97, 33, 40},       {200, 67, 131, true}};
  for (const PackedCase& c : cases) {
    SCOPED_TRACE(std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k));
    const Buffer a = Buffer::random(c.m, c.k + 3, dtype_, 1, 0.5);  // a block of columns of a wider matrix
    const Buffer b = Buffer::random(c.k, c.n, DType::kF32, 2, 0.5);
    const Buffer bias = Buffer::random(1, c.n, DType::kF32, 3);
    for (const DType result : {dtype_, DType::kF32}) {
      Buffer got(c.m, c.n, result);
      packed_gemm(context_, {.a = a.view().col_range(3, c.k),
                             .b = packed(b, /*transpose=*/false, c.n),
                             .c = got.view(),
                             .bias = c.bias ? bias.view() : ConstTensor{},
                             .relu = c.relu});
      int64_t wrong = 0;
      for (int64_t i = 0; i < c.m; ++i) {
        for (int64_t j = 0; j < c.n; ++j) {
          double expected = c.bias ? bias.get(0, j) : 0.0;
          for (int64_t k = 0; k < c.k; ++k) expected += a.get(i, k + 3) * rounded_to(b.get(k, j), dtype_);
          if (c.relu) expected = std::max(expected, 0.0);
          wrong += !testing::close(got.get(i, j), expected, tolerance_of(result));
        }
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST_P(PackedGemm, GivesARowTheSameBitsWhateverTheNumberOfRowsAndThreads) {
  const int64_t n = 200;
  const int64_t k = 301;
  const Buffer a = Buffer::random(250, k, dtype_, 1);
  const PackedMatrix b = packed(Buffer::random(k, n, DType::kF32, 2), /*transpose=*/false, n);
  Buffer all(250, n, DType::kF32);
  packed_gemm(context_, {.a = a.view(), .b = b, .c = all.view()});
  Context one_thread({.threads = 1});
  for (const int64_t rows : {1, 2, 5, 6, 7, 33, 96, 97, 101, 240}) {
    Buffer some(rows, n, DType::kF32);
    packed_gemm(one_thread, {.a = a.view().row_range(9, rows), .b = b, .c = some.view()});
    int64_t different = 0;
    for (int64_t i = 0; i < rows * n; ++i) different += some.get(i) != all.get(9 * n + i);
    EXPECT_EQ(different, 0) << rows << " rows";
  }
}

TEST_P(PackedGemm, HasNothingToDoWithoutRowsOrColumns) {
  const Buffer source = Buffer::random(40, 20, DType::kF32, 1);
  const PackedMatrix b = packed(source, false, 20);
  const PackedMatrix none{b.data, b.rows, 0, b.packing};
  Buffer a = Buffer::random(3, 40, dtype_, 2);
  Buffer c = Buffer::random(3, 20, dtype_, 3);
  const Buffer before = c;
  packed_gemm(context_, {.a = a.view().row_range(0, 0), .b = b, .c = c.view().row_range(0, 0)});
  packed_gemm(context_, {.a = a.view(), .b = none, .c = c.view().col_range(0, 0)});
  for (int64_t i = 0; i < c.size(); ++i) EXPECT_EQ(c.get(i), before.get(i));
}

TEST_P(PackedGemm, TakesItsMatrixInPiecesAndTransposed) {
  const int64_t n = 150;
  const int64_t k = 37;
  const Buffer b = Buffer::random(k, n, DType::kF32, 2);
  Buffer transposed(n, k, DType::kF32);
  for (int64_t i = 0; i < n * k; ++i) transposed.set(i, b.get(i % k, i / k));
  const Buffer a = Buffer::random(3, k, dtype_, 1);
  Buffer expected(3, n, DType::kF32);
  packed_gemm(context_, {.a = a.view(), .b = packed(b, /*transpose=*/false, n), .c = expected.view()});
  for (const PackedMatrix& other :
       {packed(b, /*transpose=*/false, 50), packed(transposed, /*transpose=*/true, n),
        packed(transposed, /*transpose=*/true, 70)}) {
    Buffer got(3, n, DType::kF32);
    packed_gemm(context_, {.a = a.view(), .b = other, .c = got.view()});
    int64_t different = 0;
    for (int64_t i = 0; i < 3 * n; ++i) different += got.get(i) != expected.get(i);
    EXPECT_EQ(different, 0);
  }
}

TEST_P(PackedGemm, RefusesShapesAndDTypesThatDoNotMatch) {
  const PackedMatrix b = packed(Buffer(5, 6, DType::kF32), /*transpose=*/false, 6);
  const Buffer a(4, 5, dtype_);
  Buffer c(4, 6, DType::kF32);
  Buffer wide(4, 7, DType::kF32);
  const Buffer bias(1, 5, DType::kF32);
  const Buffer wrong_depth(4, 6, dtype_);
  EXPECT_THROW(packed_gemm(context_, {.a = a.view(), .b = b, .c = wide.view()}), Error);
  EXPECT_THROW(packed_gemm(context_, {.a = wrong_depth.view(), .b = b, .c = c.view()}), Error);
  EXPECT_THROW(packed_gemm(context_, {.a = a.view(), .b = b, .c = c.view(), .bias = bias.view()}), Error);
  EXPECT_THROW(packed_gemm(context_, {.a = a.view(), .b = {}, .c = c.view()}), Error);
  EXPECT_THROW(pack(context_, {.source = wide.view().row_range(0, 4), .to = b}), Error);
  EXPECT_THROW(pack(context_, {.source = Buffer(5, 2, DType::kF32).view(), .to = b, .first_column = 5}),
               Error);
}

std::string name_of_packing(const ::testing::TestParamInfo<Packing>& info) {
  return name_of(info.param);
}
INSTANTIATE_TEST_SUITE_P(Packings, PackedGemm,
                         ::testing::Values(Packing::kF32, Packing::kBF16, Packing::kInt8), name_of_packing);
INSTANTIATE_TEST_SUITE_P(Packings, PackedGemmOfFloats, ::testing::Values(Packing::kF32, Packing::kBF16),
                         name_of_packing);

}  // namespace
}  // namespace ventris
