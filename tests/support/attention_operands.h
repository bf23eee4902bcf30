#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "backend/attention.h"
#include "tests/support/attention_reference.h"
#include "tests/support/operands.h"

namespace ventris::testing {

struct AttentionShape {
  std::vector<int> queries;  // lengths of sentences
  std::vector<int> keys;     // none: self-attention
  int heads;
  int64_t d_head;
  bool causal;
  int64_t gap = 0;  // between the rows of all matrices

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

  /// Forward and backward. `work` is empty or was listed for the offsets.
  void run(const AttentionWork& work = {}) {
    run_forward(work, {}, true);
    const Blocks in = blocks(device_queries_, device_keys_);
    const Blocks gradient = blocks(d_queries_, d_keys_);
    attention_backward(test_context(), {.query = in.query,
                                        .key = in.key,
                                        .value = in.value,
                                        .out = out_.view(),
                                        .log_sum_exp = log_sum_exp_.view(),
                                        .d_out = device_d_out_.view(),
                                        .query_offsets = device_query_offsets_.data(),
                                        .key_offsets = device_key_offsets_.data(),
                                        .sentences = sentences(),
                                        .heads = shape_.heads,
                                        .causal = shape_.causal,
                                        .scale = shape_.scale(),
                                        .dropout = device_key(),
                                        .work = work,
                                        .d_query = gradient.query,
                                        .d_key = gradient.key,
                                        .d_value = gradient.value});
  }
  /// Forward with probabilities, and with log_sum_exp only if it is `saved`.
  void run_forward(const AttentionWork& work, const Tensor& probabilities, bool saved) {
    const Blocks in = blocks(device_queries_, device_keys_);
    attention_forward(test_context(), {.query = in.query,
                                       .key = in.key,
                                       .value = in.value,
                                       .query_offsets = device_query_offsets_.data(),
                                       .key_offsets = device_key_offsets_.data(),
                                       .sentences = sentences(),
                                       .heads = shape_.heads,
                                       .causal = shape_.causal,
                                       .scale = shape_.scale(),
                                       .dropout = device_key(),
                                       .work = work,
                                       .out = out_.view(),
                                       .log_sum_exp = saved ? log_sum_exp_.view() : Tensor{},
                                       .probabilities = probabilities});
  }
  /// Lists the work of the sentences, in `memory`, with room for more; empty where no kernel reads lists.
  AttentionWork list_work(Arena& memory) const {
    const AttentionWork work = plan_attention_work(memory, test_device(), dtype_, sentences() + 5,
                                                   shape_.query_rows() + 70, shape_.key_rows() + 70);
    list_attention_work(test_context(), {.query_offsets = device_query_offsets_.data(),
                                         .key_offsets = device_key_offsets_.data(),
                                         .sentences = sentences(),
                                         .work = work});
    return work;
  }
  /// Sentences of other lengths, as many of them, which take no more rows: self-attention.
  void set_lengths(const std::vector<int>& lengths) {
    query_offsets_ = key_offsets_ = offsets_of(lengths);
    device_query_offsets_.set(query_offsets_);
    device_key_offsets_.set(key_offsets_);
  }
  /// Results hold NaN again, and log_sum_exp zeros.
  void forget_results() const {
    for (const MatrixOperand* result : {&out_, &d_queries_, &d_keys_}) result->forget();
    const std::vector<char> zeros(static_cast<size_t>(log_sum_exp_.view().size()) *
                                  size_of(master_dtype(dtype_)));
    copy_to_device(test_context(), log_sum_exp_.view().data, zeros.data(), zeros.size());
  }

  AttentionReference reference(int64_t max_keys = 0) const {
    const int64_t cols = shape_.cols();
    const int64_t first = shape_.self() ? cols : 0;  // of the keys
    const Buffer& keys = shape_.self() ? queries_ : keys_;
    AttentionReference r{.query = columns_of(queries_, 0, cols),
                         .key = columns_of(keys, first, cols),
                         .value = columns_of(keys, first + cols, cols),
                         .d_out = to_doubles(d_out_),
                         .query_offsets = query_offsets_,
                         .key_offsets = key_offsets_,
                         .heads = shape_.heads,
                         .d_head = shape_.d_head,
                         .causal = shape_.causal,
                         .scale = shape_.scale(),
                         .dropout = key_,
                         .max_keys = max_keys};
    r.compute();
    return r;
  }
  /// Everything that run() wrote.
  void expect_matches(const AttentionReference& r) const {
    const int64_t cols = shape_.cols();
    const int64_t first = shape_.self() ? cols : 0;
    const Buffer d_queries = d_queries_.get();
    const Buffer d_keys = shape_.self() ? d_queries : d_keys_.get();
    expect_out(r);
    expect_close("log_sum_exp", log_sum_exp_, r.log_sum_exp, master_dtype(dtype_));
    expect_near("d_query", columns_of(d_queries, 0, cols), r.d_query);
    expect_near("d_key", columns_of(d_keys, first, cols), r.d_key);
    expect_near("d_value", columns_of(d_keys, first + cols, cols), r.d_value);
  }
  void expect_out(const AttentionReference& r) const { expect_near("out", to_doubles(out_.get()), r.out); }
  void expect_same_bits_as(const AttentionOperands& other) const {
    expect_same_bits("out", out_, other.out_);
    expect_same_bits("log_sum_exp", log_sum_exp_, other.log_sum_exp_);
    expect_same_bits("gradients of queries", d_queries_, other.d_queries_);
    expect_same_bits("gradients of keys", d_keys_, other.d_keys_);
  }

 private:
  struct Blocks {
    Tensor query, key, value;
  };
  Blocks blocks(const MatrixOperand& queries, const MatrixOperand& keys) const {
    const int64_t cols = shape_.cols();
    const auto block = [&](const MatrixOperand& whole, int64_t i) {
      return whole.view().col_range(i * cols, cols);
    };
    if (shape_.self()) return {block(queries, 0), block(queries, 1), block(queries, 2)};
    return {queries.view(), block(keys, 0), block(keys, 1)};
  }
  static std::vector<double> columns_of(const Buffer& x, int64_t begin, int64_t count) {
    std::vector<double> values;
    for (int64_t r = 0; r < x.view().rows; ++r) {
      for (int64_t c = begin; c < begin + count; ++c) values.push_back(x.get(r, c));
    }
    return values;
  }
  void expect_near(const char* name, const std::vector<double>& got,
                   const std::vector<double>& expected) const {
    ASSERT_EQ(got.size(), expected.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(close(got[i], expected[i], tolerance_of(dtype_)))
          << name << ": row " << i / static_cast<size_t>(shape_.cols()) << ", column "
          << i % static_cast<size_t>(shape_.cols()) << " is " << got[i] << ", expected " << expected[i];
    }
  }
  int sentences() const { return static_cast<int>(shape_.queries.size()); }
  int64_t query_cols() const { return shape_.self() ? 3 * shape_.cols() : shape_.cols(); }
  int64_t separate_key_rows() const { return shape_.self() ? 0 : shape_.key_rows(); }
  DropoutKey device_key() const {
    DropoutKey key = key_;
    key.position = position_.data();
    return key;
  }

  static constexpr DropoutPosition kPosition = {.step = 7, .row_base = 1000};
  const ArrayOperand<DropoutPosition> position_{{kPosition}};
  const AttentionShape shape_;
  const DType dtype_;
  const DropoutKey key_;
  std::vector<int32_t> query_offsets_, key_offsets_;
  ArrayOperand<int32_t> device_query_offsets_{query_offsets_}, device_key_offsets_{key_offsets_};
  const Buffer queries_ = Buffer::random(shape_.query_rows(), query_cols(), dtype_, 1);
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
