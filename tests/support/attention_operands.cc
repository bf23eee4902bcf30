// SPDX-License-Identifier: Apache-2.0
#include "tests/support/attention_operands.h"

namespace ventris::testing {
namespace {

std::vector<double> columns_of(const Buffer& x, int64_t begin, int64_t count) {
  std::vector<double> values;
  for (int64_t r = 0; r < x.view().rows; ++r) {
    for (int64_t c = begin; c < begin + count; ++c) values.push_back(x.get(r, c));
  }
  return values;
}

}  // namespace

void AttentionOperands::run(const AttentionWork& work, Context& context) {
  run_forward(work, {}, true, context);
  const Blocks in = blocks(device_queries_, device_keys_);
  const Blocks gradient = blocks(d_queries_, d_keys_);
  attention_backward(context, {.query = in.query,
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

void AttentionOperands::run_forward(const AttentionWork& work, const Tensor& probabilities, bool saved,
                                    Context& context) {
  const Blocks in = blocks(device_queries_, device_keys_);
  attention_forward(context, {.query = in.query,
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

AttentionWork AttentionOperands::list_work(Arena& memory) const {
  const AttentionWork work = plan_attention_work(memory, test_device(), dtype_, sentences() + 5,
                                                 shape_.query_rows() + 70, shape_.key_rows() + 70);
  list_attention_work(test_context(), {.query_offsets = device_query_offsets_.data(),
                                       .key_offsets = device_key_offsets_.data(),
                                       .sentences = sentences(),
                                       .work = work});
  return work;
}

void AttentionOperands::set_lengths(const std::vector<int>& lengths) {
  query_offsets_ = key_offsets_ = offsets_of(lengths);
  device_query_offsets_.set(query_offsets_);
  device_key_offsets_.set(key_offsets_);
}

void AttentionOperands::forget_results() const {
  for (const MatrixOperand* result : {&out_, &d_queries_, &d_keys_}) result->forget();
  const std::vector<char> zeros(static_cast<size_t>(log_sum_exp_.view().size()) *
                                size_of(master_dtype(dtype_)));
  copy_to_device(test_context(), log_sum_exp_.view().data, zeros.data(), zeros.size());
}

AttentionReference AttentionOperands::reference(int64_t max_keys) const {
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

void AttentionOperands::expect_matches(const AttentionReference& r) const {
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

void AttentionOperands::expect_same_bits_as(const AttentionOperands& other) const {
  expect_same_bits("out", out_, other.out_);
  expect_same_bits("log_sum_exp", log_sum_exp_, other.log_sum_exp_);
  expect_same_bits("gradients of queries", d_queries_, other.d_queries_);
  expect_same_bits("gradients of keys", d_keys_, other.d_keys_);
}

AttentionOperands::Blocks AttentionOperands::blocks(const MatrixOperand& queries,
                                                    const MatrixOperand& keys) const {
  const int64_t cols = shape_.cols();
  const auto block = [&](const MatrixOperand& whole, int64_t i) {
    return whole.view().col_range(i * cols, cols);
  };
  if (shape_.self()) return {block(queries, 0), block(queries, 1), block(queries, 2)};
  return {queries.view(), block(keys, 0), block(keys, 1)};
}

void AttentionOperands::expect_near(const char* name, const std::vector<double>& got,
                                    const std::vector<double>& expected) const {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(close(got[i], expected[i], tolerance_of(dtype_)))
        << name << ": row " << i / static_cast<size_t>(shape_.cols()) << ", column "
        << i % static_cast<size_t>(shape_.cols()) << " is " << got[i] << ", expected " << expected[i];
  }
}

DropoutKey AttentionOperands::device_key() const {
  DropoutKey key = key_;
  key.position = position_.data();
  return key;
}

}  // namespace ventris::testing
