// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/device/instruction_set.h"
#include "backend/ops/embedding.h"
#include "backend/ops/int8_scale.h"
#include "backend/ops/packed_gemm.h"
#include "tests/support/packed_matrices.h"

namespace ventris {
namespace {

using testing::Buffer;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A row or a column as integers, by the definition.
struct Quantised {
  std::vector<int32_t> q;
  float scale = 0.0F;

  explicit Quantised(const std::vector<float>& x) {
    float largest = 0.0F;
    bool finite = true;
    for (const float value : x) {
      largest = std::max(largest, std::fabs(value));
      finite = finite && std::isfinite(value);
    }
    scale = finite ? int8_scale(largest) : kNan;
    for (const float value : x) q.push_back(finite ? int8_quantized(value, int8_inverse(scale)) : 0);
  }
};

std::vector<float> row_of(const Buffer& x, int64_t row, int64_t begin, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(x.get(row, begin + i)));
  return values;
}

std::vector<float> column_of(const Buffer& x, int64_t column, int64_t rows) {
  std::vector<float> values;
  for (int64_t i = 0; i < rows; ++i) values.push_back(static_cast<float>(x.get(i, column)));
  return values;
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

/// With VNNI where the processor has it, and without.
class Int8Gemm : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !processor_has_vnni(64) && !processor_has_vnni(32))
      GTEST_SKIP() << "this processor has no VNNI";
    pretend_no_vnni(!GetParam());
  }
  void TearDown() override { pretend_no_vnni(false); }

  /// Of source [k, n], or of its transpose.
  PackedMatrix packed(const Buffer& source, bool transpose = false) {
    const int64_t columns = transpose ? source.view().rows : source.view().cols;
    return matrices_.make(context_, Packing::kInt8, source, transpose, columns);
  }

  /// The elements of packed_gemm() that do not have the bits of the definition.
  int64_t wrong_elements(const Buffer& a, int64_t first, const Buffer& b, const Buffer* bias, bool relu) {
    const int64_t m = a.view().rows;
    const int64_t k = b.view().rows;
    const int64_t n = b.view().cols;
    Buffer got(m, n, DType::kF32);
    packed_gemm(context_, {.a = a.view().col_range(first, k),
                           .b = packed(b),
                           .c = got.view(),
                           .bias = bias != nullptr ? bias->view() : ConstTensor{},
                           .relu = relu});
    std::vector<Quantised> columns;
    for (int64_t j = 0; j < n; ++j) columns.emplace_back(column_of(b, j, k));
    int64_t wrong = 0;
    for (int64_t i = 0; i < m; ++i) {
      const Quantised row(row_of(a, i, first, k));
      for (int64_t j = 0; j < n; ++j) {
        const Quantised& column = columns[static_cast<size_t>(j)];
        int32_t sum = 0;
        for (size_t p = 0; p < row.q.size(); ++p) sum += row.q[p] * column.q[p];
        float expected = static_cast<float>(sum) * (row.scale * column.scale);
        if (bias != nullptr) expected += static_cast<float>(bias->get(0, j));
        if (relu && expected < 0.0F) expected = 0.0F;
        wrong += !same_bits(static_cast<float>(got.get(i, j)), expected);
      }
    }
    return wrong;
  }

  Context context_{{.threads = 2}};
  testing::PackedMatrices matrices_;
};

struct Int8Case {
  int64_t m;
  int64_t n;
  int64_t k;
  bool bias = false;
  bool relu = false;
};

TEST_P(Int8Gemm, HasTheBitsOfTheDefinition) {
  const Int8Case cases[] = {{1, 1, 1},
                            {1, 64, 128, true},
                            {5, 7, 3, true, true},
                            {6, 65, 129, true},
                            {7, 31, 2, false, true},
                            {13, 130, 257, true, true},
                            {97, 33, 40},
                            {200, 67, 131, true},
                            {2, 80, 1030},
                            {3, 16, 515, true},
                            {4, 17, 4},
                            {30, 100, 1100, true, true},
                            {1, 300, 513}};
  for (const Int8Case& c : cases) {
    SCOPED_TRACE(std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k));
    // A block of columns of a wider matrix.
    const Buffer a = Buffer::random(c.m, c.k + 3, DType::kF32, 1, 0.5);
    const Buffer b = Buffer::random(c.k, c.n, DType::kF32, 2, 0.5);
    const Buffer bias = Buffer::random(1, c.n, DType::kF32, 3);
    EXPECT_EQ(wrong_elements(a, 3, b, c.bias ? &bias : nullptr, c.relu), 0);
  }
}

/// value(i, j) in every place.
template <typename Value>
Buffer filled(int64_t rows, int64_t cols, Value&& value) {
  Buffer buffer(rows, cols, DType::kF32);
  for (int64_t i = 0; i < rows * cols; ++i) buffer.set(i, value(i / cols, i % cols));
  return buffer;
}

// Where products of bytes saturate or overflow, if they do.
TEST_P(Int8Gemm, TheLargestSumsAreExact) {
  const auto sign = [](int64_t i, int64_t step) { return i / step % 2 == 0 ? 127.0 : -127.0; };
  for (const int64_t k : {4, 130, 4096}) {
    SCOPED_TRACE(k);
    const Buffer all = filled(7, k, [](int64_t, int64_t) { return 127.0; });
    const Buffer mixed = filled(7, k, [&](int64_t i, int64_t p) { return sign(p, i + 1); });
    const Buffer max = filled(k, 70, [](int64_t, int64_t j) { return j % 2 == 0 ? 127.0 : -127.0; });
    const Buffer turns = filled(k, 70, [&](int64_t p, int64_t j) { return sign(p, j % 7 + 1); });
    for (const Buffer* a : {&all, &mixed}) {
      for (const Buffer* b : {&max, &turns}) EXPECT_EQ(wrong_elements(*a, 0, *b, nullptr, false), 0);
    }
  }
}

TEST_P(Int8Gemm, RowsAndColumnsOfZerosOrOfWhatIsNotFinite) {
  for (const bool relu : {false, true}) {
    Buffer a = Buffer::random(9, 37, DType::kF32, 1);
    Buffer b = Buffer::random(37, 70, DType::kF32, 2);
    const Buffer bias = Buffer::random(1, 70, DType::kF32, 3);
    for (int64_t p = 0; p < 37; ++p) {
      a.set(p, 0.0);
      a.set(37 + p, std::ldexp(1.0, -149));
      b.set(p * 70 + 5, 0.0);
    }
    a.set(3 * 37 + 11, static_cast<double>(kNan));
    a.set(4 * 37 + 36, INFINITY);
    a.set(5 * 37, -INFINITY);
    b.set(7 * 70 + 69, static_cast<double>(kNan));
    a.set(6 * 37 + 1, 1e37);
    EXPECT_EQ(wrong_elements(a, 0, b, &bias, relu), 0);
    Buffer got(9, 70, DType::kF32);
    packed_gemm(context_, {.a = a.view(), .b = packed(b), .c = got.view(), .relu = relu});
    for (int64_t j = 0; j < 69; ++j) {
      EXPECT_EQ(got.get(0, j), 0.0);
      EXPECT_TRUE(std::isnan(got.get(3, j)) && std::isnan(got.get(4, j)) && std::isnan(got.get(5, j)));
      EXPECT_TRUE(std::isfinite(got.get(6, j)));
    }
    EXPECT_TRUE(std::isnan(got.get(8, 69)));
  }
}

TEST_P(Int8Gemm, EmbeddingsAreColumnsOfThePackedTable) {
  const int64_t vocab = 90;
  const int64_t d = 39;
  const Buffer table = Buffer::random(vocab, d, DType::kF32, 2);
  const Buffer positions = Buffer::random(4, d, DType::kF32, 3);
  const std::vector<int32_t> ids = {0, 89, 17, 64};
  const std::vector<int32_t> place = {0, 1, 2, 3};
  Buffer got(4, d, DType::kF32);
  embedding_forward(context_, {.ids = ids.data(),
                               .position = place.data(),
                               .table = {},
                               .packed_table = packed(table, /*transpose=*/true),
                               .positions = positions.view(),
                               .scale = 3.0F,
                               .zero_start = false,
                               .dropout = {},
                               .out = got.view()});
  for (int64_t t = 0; t < 4; ++t) {
    const Quantised word(row_of(table, ids[static_cast<size_t>(t)], 0, d));
    for (int64_t c = 0; c < d; ++c) {
      const float value = static_cast<float>(word.q[static_cast<size_t>(c)]) * word.scale;
      EXPECT_EQ(static_cast<float>(got.get(t, c)),
                std::fma(3.0F, value, static_cast<float>(positions.get(t, c))));
    }
  }
}

TEST_P(Int8Gemm, RefusesWhatOtherPackingsTake) {
  const PackedMatrix b = packed(Buffer(5, 6, DType::kF32));
  const Buffer a(4, 5, DType::kF32);
  Buffer c(4, 6, DType::kF32);
  EXPECT_THROW(packed_gemm(context_, {.a = Buffer(4, 5, DType::kBF16).view(), .b = b, .c = c.view()}), Error);
  EXPECT_THROW(packed_gemm(context_, {.a = a.view(), .b = b, .c = c.view(), .accumulate = true}), Error);
  PackedMatrix deep = b;
  deep.rows = kMaxInt8Rows + 1;
  EXPECT_THROW(packed_gemm(context_, {.a = a.view(), .b = deep, .c = c.view()}), Error);
}

INSTANTIATE_TEST_SUITE_P(Instructions, Int8Gemm, ::testing::Values(true, false),
                         [](const auto& info) { return std::string(info.param ? "vnni" : "without_vnni"); });

}  // namespace
}  // namespace ventris
