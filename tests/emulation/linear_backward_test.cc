// SPDX-License-Identifier: Apache-2.0
// The gradients of weight and bias on the emulated device: in one product where that is measured to be
// faster, else by two kernels.
#include "backend/ops/linear_backward.h"

#include <cublasLt.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "backend/ops/column_sums.h"
#include "backend/ops/gemm_choices.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"
#include "tests/emulation/timed_products.h"
#include "tests/support/operands.h"

namespace ventris::testing {
namespace {

constexpr int kSlow = 1;  // milliseconds: a thousand pieces of work by the clock of the device

/// The gradients of a layer with 64 inputs and queries, keys and values of 64 columns.
struct Layer {
  static constexpr int64_t kWidth = 64;
  static constexpr ColumnGroups kColumns = {.first = 0, .count = kWidth, .period = 2 * kWidth};

  explicit Layer(DType dtype = DType::kBF16, int64_t rows = 128, int64_t gap = 0)
      : dtype(dtype),
        x(Buffer::random(rows, kWidth, dtype, 1)),
        d_y(Buffer::random(rows, 3 * kWidth, dtype, 2)),
        d_weight(Buffer::random(kWidth, 3 * kWidth, DType::kF32, 3)),
        d_bias(Buffer::random(1, 3 * kWidth, DType::kF32, 4)),
        device_x(x, gap),
        device_d_y(d_y, gap),
        device_d_weight(d_weight),
        device_d_bias(d_bias) {}

  void run(Context& context) {
    linear_backward(context, {.x = device_x.view(),
                              .d_y = device_d_y.view(),
                              .d_weight = device_d_weight.view(),
                              .d_bias = device_d_bias.view(),
                              .columns = kColumns,
                              .sums_later = true});
    complete_column_sums(context);
  }
  /// Runs it once, and expects what the CPU computes, with the bias of keys as it was.
  void expect_right(Context& context) {
    run(context);
    linear_backward(cpu_context(), {.x = x.view(),
                                    .d_y = d_y.view(),
                                    .d_weight = d_weight.view(),
                                    .d_bias = d_bias.view(),
                                    .columns = kColumns});
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda::stream_of(context)));
    expect_close("d_weight", device_d_weight, to_doubles(d_weight), dtype);
    expect_close("d_bias", device_d_bias, to_doubles(d_bias), dtype);
    const Buffer got = device_d_bias.get();
    for (int64_t c = kWidth; c < 2 * kWidth; ++c) EXPECT_EQ(got.get(c), d_bias.get(c)) << "of a key";
  }

  DType dtype;
  Buffer x, d_y, d_weight, d_bias;
  MatrixOperand device_x, device_d_y, device_d_weight, device_d_bias;
};

class CudaLinearBackward : public ::testing::Test {
 protected:
  void TearDown() override { emulation::blas_answers() = {}; }
  static ContextOptions device() { return {.device = Device::kCuda, .scratch_bytes = 1 << 20}; }
  /// Whether the product sums the columns, when the layer is computed again.
  static bool product_sums(Context& context, Layer&& layer = Layer()) {
    std::map<std::string, int64_t> before = emulation::launches();
    layer.run(context);
    std::map<std::string, int64_t> after = emulation::launches();
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda::stream_of(context)));
    EXPECT_EQ(after["product"] - before["product"], 1) << "nothing is timed";
    EXPECT_EQ(after["add_columns"] - before["add_columns"], 1);
    return after["sum_columns"] == before["sum_columns"];
  }

  /// The line of the layer's product with sums.
  static std::string line_of(const std::string& choices) {
    const size_t shape = choices.find(" sums m 64 n 192 k 128");
    if (shape == std::string::npos) return "";
    const size_t begin = choices.rfind('\n', shape) + 1;
    return choices.substr(begin, choices.find('\n', shape) - begin);
  }

  const TimedProducts timed_;
};

TEST_F(CudaLinearBackward, TheFasterWayIsTakenAndRight) {
  for (const bool sums : {true, false}) {
    SCOPED_TRACE(sums ? "the product sums" : "a kernel of its own sums");
    emulation::blas_answers() = {.plain_ms = sums ? kSlow : 0, .sums_ms = sums ? 0 : kSlow};
    Context context(device());
    Layer().expect_right(context);
    emulation::blas_answers() = {};
    EXPECT_EQ(product_sums(context), sums);
    Layer().expect_right(context);
  }
}

TEST_F(CudaLinearBackward, TheChoiceGoesToOtherContextsAndRunsWithEqualBits) {
  for (const bool sums : {true, false}) {
    SCOPED_TRACE(sums ? "the product sums" : "a kernel of its own sums");
    emulation::blas_answers() = {.plain_ms = sums ? kSlow : 0, .sums_ms = sums ? 0 : kSlow};
    Context chooses(device());
    Layer().run(chooses);
    emulation::blas_answers() = {};
    const std::string choices = gemm_choices(chooses);
    EXPECT_NE(line_of(choices), "") << choices;
    Context takes(device());
    EXPECT_TRUE(prefer_gemm_choices(takes, choices));
    end_gemm_tuning(takes);
    EXPECT_EQ(product_sums(takes), sums);
    const std::string again = gemm_choices(takes);
    EXPECT_NE(again.find(line_of(choices)), std::string::npos) << again;
    Layer first;
    Layer second;
    first.run(chooses);
    second.run(takes);
    for (Context* context : {&chooses, &takes})
      VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda::stream_of(*context)));
    expect_same_bits("d_weight", first.device_d_weight, second.device_d_weight);
    expect_same_bits("d_bias", first.device_d_bias, second.device_d_bias);
  }
}

TEST_F(CudaLinearBackward, AnAlgorithmWhoseSumsDifferFromRunToRunIsNotTaken) {
  for (const std::set<uint64_t>& unsteady : {std::set<uint64_t>{2}, {3}, {2, 3}}) {
    SCOPED_TRACE(::testing::PrintToString(unsteady));
    emulation::blas_answers() = {.plain_ms = kSlow, .unsteady = unsteady};
    Context context(device());
    Layer().expect_right(context);
    EXPECT_EQ(product_sums(context), unsteady.size() == 1) << "of the two algorithms that sum an operand";
    Layer first;
    Layer second;
    for (Layer* layer : {&first, &second}) layer->run(context);
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda::stream_of(context)));
    expect_same_bits("d_bias", first.device_d_bias, second.device_d_bias);
  }
}

TEST_F(CudaLinearBackward, WithoutTimingTheColumnsAreSummedByAKernelOfTheirOwn) {
  emulation::blas_answers().plain_ms = kSlow;
  {
    Context context(device());
    Layer().expect_right(context);
    Layer other(DType::kBF16, 127);
    other.expect_right(context);
    EXPECT_FALSE(product_sums(context, Layer(DType::kBF16, 127))) << "its shape is not timed";
  }
  setenv("VENTRIS_TUNE_GEMM", "0", 1);
  Context context(device());
  EXPECT_FALSE(product_sums(context));
  EXPECT_EQ(gemm_choices(context).find(" sums "), std::string::npos);
}

TEST_F(CudaLinearBackward, WhereTheLibraryRefusesAKernelOfItsOwnSumsTheColumns) {
  emulation::blas_answers() = {.with_epilogue = CUBLAS_STATUS_NOT_SUPPORTED, .plain_ms = 1};
  {
    Context context(device());
    Layer().expect_right(context);
    EXPECT_FALSE(product_sums(context));
  }
  emulation::blas_answers().with_epilogue = 0;
  Context context(device());
  Layer(DType::kBF16, 128, /*gap=*/1).expect_right(context);
  EXPECT_FALSE(product_sums(context, Layer(DType::kBF16, 128, 1))) << "rows that are not aligned";
}

}  // namespace
}  // namespace ventris::testing
