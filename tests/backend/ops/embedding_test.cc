// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/embedding.h"

#include "backend/ops/row_order.h"
#include "tests/support/dropout_mask.h"
#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

constexpr int64_t kVocab = 60;
constexpr int64_t kPositions = 4;
constexpr float kScale = 2.5F;

/// Long runs of a token, among them one of many pieces (of 4,500 rows also more than a warp looks at at a
/// time), and tokens that occur once.
std::vector<int32_t> ids_of(int64_t rows) {
  std::vector<int32_t> ids;
  for (int32_t t = 0; t < rows; ++t) ids.push_back(t % 3 == 0 ? 2 : t % 7 == 0 ? 4 : 5 + t % 50);
  return ids;
}
std::vector<int32_t> positions_of(int64_t rows) {
  std::vector<int32_t> positions;
  for (int32_t t = 0; t < rows; ++t) positions.push_back(t % static_cast<int32_t>(kPositions));
  return positions;
}

/// `rows` tokens of `cols` channels.
class Embedding : public OperationTest {
 protected:
  Embedding() {
    key_ = {.rate = GetParam().rate, .seed = 0x123456789ABCULL, .place = 0x100, .position = &kPosition};
    device_key_ = key_;
    device_key_.position = position_.data();
  }
  /// What the row of the table is multiplied by.
  double scale(int64_t t, bool zero_start) const {
    return zero_start && places_[static_cast<size_t>(t)] == 0 ? 0.0 : kScale;
  }

  static constexpr DropoutPosition kPosition = {.step = 9, .row_base = 11};
  const ArrayOperand<DropoutPosition> position_{{kPosition}};
  const DType dtype_ = GetParam().dtype;
  const Size size_ = GetParam().size;
  const std::vector<int32_t> ids_ = ids_of(size_.rows), places_ = positions_of(size_.rows);
  const ArrayOperand<int32_t> device_ids_{ids_}, device_places_{places_};
  const ArrayOperand<int32_t> id_order_{order_of_rows(ids_)}, place_order_{order_of_rows(places_)};
  DropoutKey key_, device_key_;
};

VENTRIS_FOR_CASES(Embedding,
                  cases(test_dtypes(),
                        {{1, 1}, {7, 31}, {33, 300}, {41, 7, 3}, {67, 130}, {300, 264, 8}, {4500, 3}},
                        {0.0F, 0.3F}));

TEST_P(Embedding, ForwardMatchesTheReference) {
  const auto& [rows, cols, gap] = size_;
  const Buffer table = Buffer::random(kVocab, cols, dtype_, 1);
  const Buffer positions = Buffer::random(kPositions, cols, master_dtype(dtype_), 2);
  const MatrixOperand device_table(table, gap), device_positions(positions, gap);
  for (const bool zero_start : {false, true}) {
    SCOPED_TRACE(zero_start ? "zero start" : "");
    const MatrixOperand out(rows, cols, dtype_, gap), again(rows, cols, dtype_, gap);
    for (const MatrixOperand* to : {&out, &again}) {
      embedding_forward(to == &out ? test_context() : other_context(), {.ids = device_ids_.data(),
                                                                        .position = device_places_.data(),
                                                                        .table = device_table.view(),
                                                                        .positions = device_positions.view(),
                                                                        .scale = kScale,
                                                                        .zero_start = zero_start,
                                                                        .dropout = device_key_,
                                                                        .out = to->view()});
    }
    std::vector<double> expected;
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < cols; ++c) {
        const double word = table.get(ids_[static_cast<size_t>(t)], c);
        const double place = positions.get(places_[static_cast<size_t>(t)], c);
        expected.push_back(dropout_mask(key_, t, c) * (scale(t, zero_start) * word + place));
      }
    }
    expect_close("out", out, expected, dtype_);
    expect_same_bits("out again", out, again);
  }
}

TEST_P(Embedding, BackwardMatchesTheReferenceAndRepeatsItsBits) {
  const auto& [rows, cols, gap] = size_;
  const DType master = master_dtype(dtype_);
  const Buffer d_out = Buffer::random(rows, cols, dtype_, 1);
  const Buffer d_table = Buffer::random(kVocab, cols, master, 2);
  const Buffer d_positions = Buffer::random(kPositions, cols, master, 3);
  const MatrixOperand device_d_out(d_out, gap);
  for (const bool zero_start : {false, true}) {
    SCOPED_TRACE(zero_start ? "zero start" : "");
    const MatrixOperand table(d_table, gap), table_again(d_table, gap), positions(d_positions, gap),
        positions_again(d_positions, gap);
    for (const bool again : {false, true}) {
      embedding_backward(again ? other_context() : test_context(),
                         {.ids = device_ids_.data(),
                          .id_order = id_order_.data(),
                          .position = device_places_.data(),
                          .position_order = place_order_.data(),
                          .d_out = device_d_out.view(),
                          .scale = kScale,
                          .zero_start = zero_start,
                          .dropout = device_key_,
                          .d_table = again ? table_again.view() : table.view(),
                          .d_positions = again ? positions_again.view() : positions.view()});
    }
    std::vector<double> expected_table = to_doubles(d_table), expected_positions = to_doubles(d_positions);
    for (int64_t t = 0; t < rows; ++t) {
      const int64_t id = ids_[static_cast<size_t>(t)], place = places_[static_cast<size_t>(t)];
      for (int64_t c = 0; c < cols; ++c) {
        const double gradient = dropout_mask(key_, t, c) * d_out.get(t, c);
        expected_table[static_cast<size_t>(id * cols + c)] += scale(t, zero_start) * gradient;
        expected_positions[static_cast<size_t>(place * cols + c)] += gradient;
      }
    }
    expect_close("d_table", table, expected_table, master);
    expect_close("d_positions", positions, expected_positions, master);
    expect_same_bits("d_table again", table, table_again);
    expect_same_bits("d_positions again", positions, positions_again);
  }
}

}  // namespace
}  // namespace ventris::testing
