#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backend/attention.h"
#include "backend/attention_cuda.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

struct Case {
  std::vector<int> queries;  // lengths
  std::vector<int> keys;     // none: self-attention
  int heads;
  int64_t d_head;
  bool causal;
  float rate;
  int64_t gap = 0;  // between the rows of all matrices

  bool self() const { return keys.empty(); }
  int64_t cols() const { return heads * d_head; }
};
constexpr int64_t kPadding = 3;
constexpr DropoutPosition kPosition = {.step = 3, .row_base = 7};

std::vector<int32_t> offsets_of(const std::vector<int>& lengths) {
  std::vector<int32_t> offsets(lengths.size() + 1);
  std::partial_sum(lengths.begin(), lengths.end(), offsets.begin() + 1);
  return offsets;
}

/// Query, key and value as the model has them: blocks of columns of one matrix in self-attention; else keys
/// and values alone are.
struct Views {
  Tensor query, key, value;
};
Views views_of(const Case& c, const Tensor& queries, const Tensor& keys) {
  const auto block = [&c](const Tensor& whole, int i) { return whole.col_range(i * c.cols(), c.cols()); };
  if (c.self()) return {block(queries, 0), block(queries, 1), block(queries, 2)};
  return {queries, block(keys, 0), block(keys, 1)};
}

/// Matrices of one run: Buffer on the CPU, DeviceMatrix on the device.
template <typename Matrix>
struct Attention {
  const Case& c;
  Matrix queries, keys, d_out;          // inputs
  Matrix d_queries, d_keys, out, sums;  // results

  void operator()(Context& context, const int32_t* query_offsets, const int32_t* key_offsets,
                  const DropoutPosition* position, const AttentionWork& work = {}) {
    const Views in = views_of(c, queries.view(), keys.view());
    const Views gradient = views_of(c, d_queries.view(), d_keys.view());
    const float scale = 1.0F / std::sqrt(static_cast<float>(c.d_head));
    const int sentences = static_cast<int>(c.queries.size());
    const DropoutKey dropout = {
        .rate = c.rate, .seed = 0x123456789ABCULL, .place = 0x200, .position = position};
    const AttentionForwardArgs forward{.query = in.query,
                                       .key = in.key,
                                       .value = in.value,
                                       .query_offsets = query_offsets,
                                       .key_offsets = key_offsets,
                                       .sentences = sentences,
                                       .heads = c.heads,
                                       .causal = c.causal,
                                       .scale = scale,
                                       .dropout = dropout,
                                       .work = work,
                                       .out = out.view(),
                                       .log_sum_exp = sums.view()};
    const AttentionBackwardArgs backward{.query = in.query,
                                         .key = in.key,
                                         .value = in.value,
                                         .out = out.view(),
                                         .log_sum_exp = sums.view(),
                                         .d_out = d_out.view(),
                                         .query_offsets = query_offsets,
                                         .key_offsets = key_offsets,
                                         .sentences = sentences,
                                         .heads = c.heads,
                                         .causal = c.causal,
                                         .scale = scale,
                                         .dropout = dropout,
                                         .work = work,
                                         .d_query = gradient.query,
                                         .d_key = gradient.key,
                                         .d_value = gradient.value};
    if constexpr (std::is_same_v<Matrix, Buffer>) {
      attention_forward(context, forward);
      attention_backward(context, backward);
    } else {
      attention_forward_cuda(context, forward);
      attention_backward_cuda(context, backward);
    }
  }
};

struct Shapes {
  int64_t query_rows, query_cols, key_rows, key_cols;
};
Shapes shapes_of(const Case& c) {
  const int64_t query_rows = std::accumulate(c.queries.begin(), c.queries.end(), kPadding);
  if (c.self()) return {query_rows, 3 * c.cols(), 0, 0};
  return {query_rows, c.cols(), std::accumulate(c.keys.begin(), c.keys.end(), kPadding), 2 * c.cols()};
}

Attention<Buffer> on_cpu(const Case& c, DType dtype) {
  const Shapes s = shapes_of(c);
  return {c,
          Buffer::random(s.query_rows, s.query_cols, dtype, 1),
          Buffer::random(s.key_rows, s.key_cols, dtype, 2),
          Buffer::random(s.query_rows, c.cols(), dtype, 3),
          {s.query_rows, s.query_cols, dtype},
          {s.key_rows, s.key_cols, dtype},
          {s.query_rows, c.cols(), dtype},
          {c.heads, s.query_rows, DType::kF32}};
}
/// With the inputs of `cpu`; results hold NaN, but for the sums, which nothing writes past the last token.
Attention<DeviceMatrix> on_device(const Attention<Buffer>& cpu, DType dtype) {
  const Case& c = cpu.c;
  const Shapes s = shapes_of(c);
  return {c,
          DeviceMatrix(cpu.queries, c.gap),
          DeviceMatrix(cpu.keys, c.gap),
          DeviceMatrix(cpu.d_out, c.gap),
          {s.query_rows, s.query_cols, dtype, c.gap},
          {s.key_rows, s.key_cols, dtype, c.gap},
          {s.query_rows, c.cols(), dtype, c.gap},
          DeviceMatrix(Buffer(c.heads, s.query_rows, DType::kF32))};
}

void expect_results(const Attention<DeviceMatrix>& device, const Attention<Buffer>& cpu, DType dtype) {
  expect_matches("out", device.out, cpu.out, dtype);
  expect_matches("log_sum_exp", device.sums, cpu.sums, DType::kF32);
  expect_matches("gradients of queries", device.d_queries, cpu.d_queries, dtype);
  expect_matches("gradients of keys", device.d_keys, cpu.d_keys, dtype);
}

/// Lists of work for the sentences of a batch, with room for more.
class ListedWork {
 public:
  ListedWork(const Case& c, const int32_t* query_offsets, const int32_t* key_offsets)
      : memory_(Device::kCuda, size_t{1} << 16), work_(plan(c)) {
    const AttentionWorkArgs args{.query_offsets = query_offsets,
                                 .key_offsets = key_offsets,
                                 .sentences = static_cast<int>(c.queries.size()),
                                 .work = work_};
    list_attention_work_cuda(cuda_context(), args);
  }
  const AttentionWork& work() const { return work_; }

 private:
  AttentionWork plan(const Case& c) {
    const Shapes s = shapes_of(c);
    const auto sentences = static_cast<int>(c.queries.size());
    return {.memory = memory_.allocate(
                attention_work_bytes_cuda(sentences + 5, s.query_rows + 70, s.query_rows + s.key_rows)),
            .sentences = sentences + 5,
            .query_rows = s.query_rows + 70,
            .key_rows = s.query_rows + s.key_rows};
  }
  Arena memory_;
  AttentionWork work_;
};

/// Forward and backward against the CPU; if `repeat`, again on the device, with the same bits, and with lists
/// of work that are made once for the two.
void check(const Case& c, DType dtype, bool repeat = false) {
  SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << c.heads << " heads of " << c.d_head
                                    << (c.causal ? ", causal" : "") << ", rate " << c.rate);
  const std::vector<int32_t> query_offsets = offsets_of(c.queries);
  const std::vector<int32_t> key_offsets = offsets_of(c.self() ? c.queries : c.keys);
  Attention<Buffer> cpu = on_cpu(c, dtype);
  cpu(cpu_context(), query_offsets.data(), key_offsets.data(), &kPosition);
  const DeviceArray<int32_t> device_query_offsets(query_offsets), device_key_offsets(key_offsets);
  const DeviceArray<DropoutPosition> position({kPosition});
  const auto run = [&](Attention<DeviceMatrix>& device, const AttentionWork& work) {
    device(cuda_context(), device_query_offsets.data(), device_key_offsets.data(), position.data(), work);
  };
  Attention<DeviceMatrix> first = on_device(cpu, dtype);
  run(first, {});
  expect_results(first, cpu, dtype);
  if (!repeat) return;
  Attention<DeviceMatrix> second = on_device(cpu, dtype);
  const ListedWork listed(c, device_query_offsets.data(), device_key_offsets.data());
  run(second, listed.work());
  expect_same("out", first.out, second.out);
  expect_same("gradients of queries", first.d_queries, second.d_queries);
  expect_same("gradients of keys", first.d_keys, second.d_keys);
}

std::vector<int> up_to(int longest) {
  std::vector<int> lengths(static_cast<size_t>(longest));
  std::iota(lengths.begin(), lengths.end(), 1);
  return lengths;
}

TEST(CudaAttention, TakesAnyDtypeAndHeadSize) {
  for (const DType dtype : kDeviceDTypes) {
    check({.queries = {1, 3, 0, 33}, .keys = {}, .heads = 2, .d_head = 32, .causal = true, .rate = 0.0F},
          dtype, true);
    check({.queries = {2, 0, 67}, .keys = {}, .heads = 1, .d_head = 48, .causal = true, .rate = 0.3F}, dtype,
          true);
    check({.queries = {7, 2, 41}, .keys = {40, 0, 5}, .heads = 3, .d_head = 5, .causal = false, .rate = 0.3F},
          dtype, true);
    check({.queries = {0, 5}, .keys = {3, 37}, .heads = 1, .d_head = 130, .causal = false, .rate = 0.0F},
          dtype);
  }
}

TEST(CudaAttention, TakesMatricesThatAreNotAligned) {
  check({.queries = {5, 20}, .keys = {}, .heads = 1, .d_head = 64, .causal = true, .rate = 0.3F, .gap = 3},
        DType::kBF16);
}

TEST(CudaAttentionOnTensorCores, CausalSentencesOfEveryShortLength) {
  check({.queries = up_to(70), .keys = {}, .heads = 1, .d_head = 32, .causal = true, .rate = 0.0F},
        DType::kBF16);
}
TEST(CudaAttentionOnTensorCores, SentencesOfEveryShortLengthThatSeeAll) {
  check({.queries = up_to(70), .keys = {}, .heads = 1, .d_head = 32, .causal = false, .rate = 0.3F},
        DType::kBF16);
}
TEST(CudaAttentionOnTensorCores, QueriesAndKeysOfDifferentLengths) {
  check({.queries = {1, 40, 16, 3, 17, 70, 0, 9, 64, 0, 100},
         .keys = {30, 2, 17, 64, 90, 6, 12, 0, 33, 80, 0},
         .heads = 2,
         .d_head = 32,
         .causal = false,
         .rate = 0.3F},
        DType::kBF16);
}
TEST(CudaAttentionOnTensorCores, EveryHeadSizeCausal) {
  for (const int64_t d_head : {32, 64, 128}) {
    check({.queries = {9, 28, 50},
           .keys = {},
           .heads = 1,
           .d_head = d_head,
           .causal = true,
           .rate = d_head == 64 ? 0.0F : 0.3F,
           .gap = 8},
          DType::kBF16);
  }
}
TEST(CudaAttentionOnTensorCores, EveryHeadSizeAcross) {
  for (const int64_t d_head : {32, 64, 128}) {
    check({.queries = {14, 30, 65},
           .keys = {16, 25, 70},
           .heads = 1,
           .d_head = d_head,
           .causal = false,
           .rate = d_head == 64 ? 0.3F : 0.0F},
          DType::kBF16);
  }
}
/// Heads of short sentences share a block: a number of heads that fills the blocks, and one that does not.
TEST(CudaAttentionOnTensorCores, AnyNumberOfHeads) {
  for (const int heads : {4, 5}) {
    check({.queries = {16, 32, 5, 0, 40},
           .keys = {},
           .heads = heads,
           .d_head = 32,
           .causal = true,
           .rate = 0.3F},
          DType::kBF16, heads == 5);
  }
}
TEST(CudaAttentionOnTensorCores, LongCausalSentencesRepeatTheirBits) {
  check({.queries = {70, 200}, .keys = {}, .heads = 1, .d_head = 64, .causal = true, .rate = 0.3F},
        DType::kBF16, true);
}
TEST(CudaAttentionOnTensorCores, LongSentencesAcross) {
  check({.queries = {10, 150}, .keys = {200, 129}, .heads = 1, .d_head = 32, .causal = false, .rate = 0.3F},
        DType::kBF16);
  check({.queries = {65}, .keys = {130}, .heads = 1, .d_head = 128, .causal = false, .rate = 0.0F},
        DType::kBF16, true);
}
TEST(CudaAttentionOnTensorCores, RowsWithoutSentencesGetZeros) {
  check({.queries = {0, 0}, .keys = {}, .heads = 1, .d_head = 32, .causal = true, .rate = 0.0F},
        DType::kBF16);
  check({.queries = {}, .keys = {}, .heads = 1, .d_head = 32, .causal = true, .rate = 0.0F}, DType::kBF16);
}

/// A captured step serves batches with other lengths, as long as rows and sentences are as many.
TEST(CudaAttentionOnTensorCores, ACapturedStepServesOtherLengths) {
  const Case captured{
      .queries = {100, 20, 0, 0, 0}, .keys = {}, .heads = 2, .d_head = 32, .causal = true, .rate = 0.3F};
  Case other = captured;
  other.queries = {10, 33, 20, 16, 30};  // fewer tokens: more rows to be cleared
  Attention<Buffer> cpu = on_cpu(captured, DType::kBF16);
  const std::vector<int32_t> offsets = offsets_of(other.queries);
  cpu(cpu_context(), offsets.data(), offsets.data(), &kPosition);
  const DeviceArray<int32_t> device_offsets(offsets_of(captured.queries));
  const DeviceArray<DropoutPosition> position({kPosition});
  Attention<DeviceMatrix> device = on_device(cpu, DType::kBF16);
  const auto run = [&] {
    device(cuda_context(), device_offsets.data(), device_offsets.data(), position.data());
  };
  run();  // scratch memory grows
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(cuda_stream(), cudaStreamCaptureModeGlobal));
  run();
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(cuda_stream(), &graph));
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph));
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda_stream()));
  VENTRIS_CUDA_CHECK(cudaMemcpy(device_offsets.data(), offsets.data(), offsets.size() * sizeof(int32_t),
                                cudaMemcpyHostToDevice));
  for (const DeviceMatrix* m : {&device.out, &device.d_queries}) {
    const Tensor view = m->view();
    VENTRIS_CUDA_CHECK(cudaMemset(view.data, 0xFF, static_cast<size_t>(view.size()) * sizeof(BF16)));
  }
  finish_copies();
  VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, cuda_stream()));
  expect_matches("out", device.out, cpu.out, DType::kBF16);
  expect_matches("gradients of queries", device.d_queries, cpu.d_queries, DType::kBF16);
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

/// Probabilities before dropout, for both kinds of kernels, with log_sum_exp of scratch memory.
TEST(CudaAttention, WritesProbabilities) {
  for (const DType dtype : kDeviceDTypes) {
    constexpr int64_t kMaxKeys = 75;
    const Buffer rows = Buffer::random(73, 3 * 64, dtype, 1);
    const std::vector<int32_t> offsets = {0, 3, 70};
    Buffer out(73, 64, dtype), probabilities(73, 2 * kMaxKeys, DType::kF32);
    const auto args_of = [&](const Tensor& in, const int32_t* begin, const Tensor& to, const Tensor& p) {
      return AttentionForwardArgs{.query = in.col_range(0, 64),
                                  .key = in.col_range(64, 64),
                                  .value = in.col_range(128, 64),
                                  .query_offsets = begin,
                                  .key_offsets = begin,
                                  .sentences = 2,
                                  .heads = 2,
                                  .causal = true,
                                  .scale = 0.2F,
                                  .work = {},
                                  .out = to,
                                  .probabilities = p};
    };
    Buffer in = rows;
    attention_forward(cpu_context(), args_of(in.view(), offsets.data(), out.view(), probabilities.view()));
    const DeviceMatrix in_(rows), out_(73, 64, dtype), probabilities_(Buffer(73, 2 * kMaxKeys, DType::kF32));
    const DeviceArray<int32_t> offsets_(offsets);
    attention_forward_cuda(cuda_context(),
                           args_of(in_.view(), offsets_.data(), out_.view(), probabilities_.view()));
    expect_matches("out", out_, out, dtype);
    expect_matches("probabilities", probabilities_, probabilities, DType::kF32);
  }
}

TEST(CudaAttentionDecode, MatchesCpu) {
  for (const DType dtype : kDeviceDTypes) {
    for (const int64_t d_head : {5, 64}) {
      const Buffer query = Buffer::random(3, 2 * d_head, dtype, 1);
      const Buffer key = Buffer::random(50, 2 * d_head, dtype, 2),
                   value = Buffer::random(50, 2 * d_head, dtype, 3);
      std::vector<int32_t> rows;
      for (int i = 0; i < 41; ++i) rows.push_back(i * 7 % 50);
      const std::vector<int32_t> begin = {0, 40, 40, 41};
      Buffer out(3, 2 * d_head, dtype), probabilities(3, 44, DType::kF32);
      AttentionDecodeArgs args{.query = query.view(),
                               .key = key.view(),
                               .value = value.view(),
                               .key_rows = rows.data(),
                               .key_begin = begin.data(),
                               .heads = 2,
                               .scale = 0.3F,
                               .out = out.view(),
                               .probabilities = probabilities.view()};
      attention_decode(cpu_context(), args);
      const DeviceMatrix query_(query), key_(key), value_(value), out_(3, 2 * d_head, dtype),
          p_(3, 44, DType::kF32);
      const DeviceArray<int32_t> rows_(rows), begin_(begin);
      args.query = query_.view(), args.key = key_.view(), args.value = value_.view();
      args.key_rows = rows_.data(), args.key_begin = begin_.data(), args.out = out_.view(),
      args.probabilities = p_.view();
      attention_decode_cuda(cuda_context(), args);
      expect_matches("out", out_, out, dtype);
      expect_matches("probabilities", p_, probabilities, DType::kF32);
    }
  }
}

}  // namespace
}  // namespace ventris::testing
