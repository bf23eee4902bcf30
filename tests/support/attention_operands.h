// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "backend/ops/attention.h"
#include "tests/support/attention_reference.h"
#include "tests/support/operands.h"

namespace ventris::testing {

struct AttentionShape {
  std::vector<int> queries;  // lengths of sentences
  std::vector<int> keys;     // none: self-attention
  int heads;
  int64_t d_head;
  bool causal;
  int64_t gap = 0;      // between the rows of all matrices
  double spread = 1.0;  // standard deviation of the queries, and of all else in self-attention

  bool self() const { return keys.empty(); }
  int64_t cols() const { return heads * d_head; }
  int64_t query_rows() const { return std::accumulate(queries.begin(), queries.end(), kPadding); }
  int64_t key_rows() const {
    return self() ? query_rows() : std::accumulate(keys.begin(), keys.end(), kPadding);
  }
  float scale() const { return 1.0F / std::sqrt(static_cast<float>(d_head)); }

  static constexpr int64_t kPadding = 3;  // rows past the last token
};

/// Attention on the tested device, as the model has it: query, key and value are blocks of columns of one
/// matrix in self-attention; else keys and values alone are.
class AttentionOperands {
 public:
  AttentionOperands(const AttentionShape& shape, DType dtype, float rate)
      : shape_(shape),
        dtype_(dtype),
        key_({.rate = rate, .seed = 0x123456789ABCDEFULL, .place = 0x500, .position = &kPosition}),
        query_offsets_(offsets_of(shape.queries)),
        key_offsets_(offsets_of(shape.self() ? shape.queries : shape.keys)) {}

  /// Forward and backward. `work` is empty or was listed for the offsets; the context is of the tested
  /// device.
  void run(const AttentionWork& work = {}, Context& context = test_context());
  /// Forward with probabilities, and with log_sum_exp only if it is `saved`.
  void run_forward(const AttentionWork& work, const Tensor& probabilities, bool saved,
                   Context& context = test_context());
  /// Lists the work of the sentences, in `memory`, with room for more; empty where no kernel reads lists.
  AttentionWork list_work(Arena& memory) const;
  /// Sentences of other lengths, as many of them, which take no more rows: self-attention.
  void set_lengths(const std::vector<int>& lengths);
  /// Results hold NaN again, and log_sum_exp zeros.
  void forget_results() const;

  AttentionReference reference(int64_t max_keys = 0) const;
  /// Everything that run() wrote.
  void expect_matches(const AttentionReference& r) const;
  void expect_out(const AttentionReference& r) const { expect_near("out", to_doubles(out_.get()), r.out); }
  void expect_same_bits_as(const AttentionOperands& other) const;

 private:
  struct Blocks {
    Tensor query, key, value;
  };
  Blocks blocks(const MatrixOperand& queries, const MatrixOperand& keys) const;
  void expect_near(const char* name, const std::vector<double>& got,
                   const std::vector<double>& expected) const;
  int sentences() const { return static_cast<int>(shape_.queries.size()); }
  int64_t query_cols() const { return shape_.self() ? 3 * shape_.cols() : shape_.cols(); }
  int64_t separate_key_rows() const { return shape_.self() ? 0 : shape_.key_rows(); }
  DropoutKey device_key() const;

  static constexpr DropoutPosition kPosition = {.step = 7, .row_base = 1000};
  const ArrayOperand<DropoutPosition> position_{{kPosition}};
  const AttentionShape shape_;
  const DType dtype_;
  const DropoutKey key_;
  std::vector<int32_t> query_offsets_, key_offsets_;
  ArrayOperand<int32_t> device_query_offsets_{query_offsets_}, device_key_offsets_{key_offsets_};
  const Buffer queries_ = Buffer::random(shape_.query_rows(), query_cols(), dtype_, 1, shape_.spread);
  const Buffer keys_ = Buffer::random(separate_key_rows(), 2 * shape_.cols(), dtype_, 2);
  const Buffer d_out_ = Buffer::random(shape_.query_rows(), shape_.cols(), dtype_, 3);
  const MatrixOperand device_queries_{queries_, shape_.gap}, device_keys_{keys_, shape_.gap},
      device_d_out_{d_out_, shape_.gap};
  const MatrixOperand d_queries_{shape_.query_rows(), query_cols(), dtype_, shape_.gap};
  const MatrixOperand d_keys_{separate_key_rows(), 2 * shape_.cols(), dtype_, shape_.gap};
  const MatrixOperand out_{shape_.query_rows(), shape_.cols(), dtype_, shape_.gap};
  /// Zeros: nothing is written past the last token.
  const MatrixOperand log_sum_exp_{Buffer(shape_.heads, shape_.query_rows(), master_dtype(dtype_))};
};

}  // namespace ventris::testing
