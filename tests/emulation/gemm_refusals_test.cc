// SPDX-License-Identifier: Apache-2.0
// What cuBLASLt refuses, by its twin (cublas_lt.cc), and what the program does then: another way where it has
// one, an error that names the product where arguments are wrong.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "tests/emulation/controls.h"
#include "tests/emulation/gemm_product.h"

namespace ventris::testing {
namespace {

/// A question for algorithms in cuBLASLt's own terms, d = a b by columns; right, until a test spoils it.
struct Question {
  cudaDataType type = CUDA_R_16BF;    // of a and b
  cudaDataType d_type = CUDA_R_16BF;  // of c and d
  int64_t m = 64, n = 48, k = 32;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  int64_t a_gap = 0, b_gap = 0, d_gap = 0;  // of the leading dimensions
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  uintptr_t vector = 16;  // an address that says an alignment
  int32_t vector_type = -1;
  std::array<uint32_t, 4> alignment = {16, 16, 16, 16};
  int wanted = 8;
};

struct Answer {
  cublasStatus_t status;
  std::vector<cublasLtMatmulAlgo_t> algorithms;
};

/// The descriptions of a question.
class Descriptions {
 public:
  explicit Descriptions(const Question& q)
      : a(layout(q.type, q.transpose_a == CUBLAS_OP_N ? q.m : q.k, q.transpose_a == CUBLAS_OP_N ? q.k : q.m,
                 q.a_gap)),
        b(layout(q.type, q.transpose_b == CUBLAS_OP_N ? q.k : q.n, q.transpose_b == CUBLAS_OP_N ? q.n : q.k,
                 q.b_gap)),
        d(layout(q.d_type, q.m, q.n, q.d_gap)) {
    EXPECT_EQ(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, q.transpose_a);
    set(CUBLASLT_MATMUL_DESC_TRANSB, q.transpose_b);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, q.epilogue);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, q.vector);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, q.vector_type);
  }
  ~Descriptions() {
    for (cublasLtMatrixLayout_t one : {a, b, d}) static_cast<void>(cublasLtMatrixLayoutDestroy(one));
    static_cast<void>(cublasLtMatmulDescDestroy(operation));
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a, b, d;

 private:
  static cublasLtMatrixLayout_t layout(cudaDataType type, int64_t rows, int64_t cols, int64_t gap) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, type, static_cast<uint64_t>(rows),
                                         static_cast<uint64_t>(cols), rows + gap),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
};

/// The library, with a preference for a workspace that is large enough.
class Library {
 public:
  Library() {
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference_), CUBLAS_STATUS_SUCCESS);
    constexpr uint64_t kWorkspace = 1 << 20;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  }
  ~Library() {
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference_));
    static_cast<void>(cublasLtDestroy(handle));
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  Answer ask(const Question& q) const {
    constexpr int kFirst = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    for (int i = 0; i < 4; ++i) {
      prefer(static_cast<cublasLtMatmulPreferenceAttributes_t>(kFirst + i),
             q.alignment[static_cast<size_t>(i)]);
    }
    const Descriptions is(q);
    std::array<cublasLtMatmulHeuristicResult_t, 8> results{};
    int found = 0;
    Answer answer{cublasLtMatmulAlgoGetHeuristic(handle, is.operation, is.a, is.b, is.d, is.d, preference_,
                                                 q.wanted, results.data(), &found),
                  {}};
    for (int i = 0; i < found; ++i) answer.algorithms.push_back(results[static_cast<size_t>(i)].algo);
    return answer;
  }

  cublasLtHandle_t handle = nullptr;

 private:
  template <typename T>
  void prefer(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) const {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasLtMatmulPreference_t preference_ = nullptr;
};

TEST(CublasLtTwin, AnswersQuestionsForAlgorithmsAsDocumented) {
  struct Case {
    const char* what;
    std::function<void(Question&)> spoil;
    cublasStatus_t status;
    size_t algorithms = 0;
  };
  constexpr auto kDone = CUBLAS_STATUS_SUCCESS;
  constexpr auto kRefused = CUBLAS_STATUS_NOT_SUPPORTED;
  constexpr auto kWrong = CUBLAS_STATUS_INVALID_VALUE;
  const auto epilogue = [](int32_t one) { return [one](Question& q) { q.epilogue = one; }; };
  const auto sums_of_a = [](Question& q) {
    q.epilogue = CUBLASLT_EPILOGUE_BGRADA;
    q.transpose_b = CUBLAS_OP_T;
    q.d_type = CUDA_R_32F;
  };
  const Case cases[] = {
      {"nothing spoilt", [](Question&) {}, kDone, 3},
      {"an odd stride of a", [](Question& q) { q.a_gap = 1; }, kDone, 1},
      {"an odd stride of b", [](Question& q) { q.b_gap = 4; }, kDone, 1},
      {"an odd stride of d", [](Question& q) { q.d_gap = 2; }, kDone, 1},
      {"a less aligned a", [](Question& q) { q.alignment[0] = 8; }, kDone, 1},
      {"a less aligned d", [](Question& q) { q.alignment[3] = 2; }, kDone, 1},
      {"an element that is not aligned", [](Question& q) { q.alignment[1] = 1; }, kDone, 0},
      {"a bias of another type",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_BIAS;
         q.vector_type = CUDA_R_32F;
       },
       kRefused},
      {"no address of a bias",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
         q.vector = 0;
       },
       kWrong},
      {"sums of a", sums_of_a, kDone, 2},
      {"sums of a, transposed",
       [&](Question& q) {
         sums_of_a(q);
         q.transpose_a = CUBLAS_OP_T;
       },
       kRefused},
      {"sums of a in bf16 beside a result in f32",
       [&](Question& q) {
         sums_of_a(q);
         q.vector_type = CUDA_R_16BF;
       },
       kRefused},
      {"sums of b, not transposed", epilogue(CUBLASLT_EPILOGUE_BGRADB), kRefused},
      {"a result in bf16 of f32", [](Question& q) { q.type = CUDA_R_32F; }, kRefused},
      {"a leading dimension below the rows", [](Question& q) { q.a_gap = -1; }, kWrong},
      {"no rows", [](Question& q) { q.m = 0; }, kWrong},
      {"no algorithms wanted", [](Question& q) { q.wanted = 0; }, kWrong},
  };
  const Library library;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    Question question;
    one.spoil(question);
    const Answer answer = library.ask(question);
    EXPECT_EQ(answer.status, one.status);
    EXPECT_EQ(answer.algorithms.size(), one.algorithms);
  }
}

TEST(CublasLtTwin, RunsAProductOnlyAsItsAlgorithmWasFound) {
  const Library library;
  const Question found;
  const cublasLtMatmulAlgo_t algorithm = library.ask(found).algorithms.back();
  const DeviceMatrix a(found.k, found.m, DType::kBF16, 8);
  const DeviceMatrix b(found.n, found.k, DType::kBF16, 8);
  const DeviceMatrix d(found.n, found.m, DType::kBF16, 8);
  const DeviceMatrix workspace(1, 1 << 18, DType::kF32);
  struct Case {
    const char* what;
    int64_t a_offset = 0, d_offset = 0, workspace_offset = 0;  // bytes
    int64_t b_gap = 0;
    size_t workspace_bytes = size_t{1} << 20;
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  };
  const Case cases[] = {
      {.what = "nothing spoilt", .status = CUBLAS_STATUS_SUCCESS},
      {.what = "a less aligned a", .a_offset = 8},
      {.what = "a less aligned d", .d_offset = 2},
      {.what = "an odd stride", .b_gap = 1},
      {.what = "a small workspace", .workspace_bytes = 1024, .status = CUBLAS_STATUS_INVALID_VALUE},
      {.what = "a less aligned workspace", .workspace_offset = 8, .status = CUBLAS_STATUS_INVALID_VALUE},
  };
  const float one = 1.0F;
  const float zero = 0.0F;
  const auto at = [](const DeviceMatrix& matrix, int64_t offset) {
    return static_cast<char*>(matrix.view().data) + offset;
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    Question asked = found;
    asked.b_gap = c.b_gap;
    const Descriptions is(asked);
    EXPECT_EQ(cublasLtMatmul(library.handle, is.operation, &one, at(a, c.a_offset), is.a, at(b, 0), is.b,
                             &zero, at(d, c.d_offset), is.d, at(d, c.d_offset), is.d, &algorithm,
                             at(workspace, c.workspace_offset), c.workspace_bytes, cuda_stream()),
              c.status);
  }
  VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda_stream()));
}

/// Answers other than the right ones, during a test.
class CudaGemmRefusals : public ::testing::Test {
 protected:
  void TearDown() override { emulation::blas_answers() = {}; }
  static std::optional<Error> error_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }
};

TEST_F(CudaGemmRefusals, WrongArgumentsAreAnErrorThatNamesTheProduct) {
  GemmProduct p({.m = 11, .n = 13, .k = 17}, DType::kBF16);
  emulation::blas_answers().heuristic = CUBLAS_STATUS_INVALID_VALUE;
  Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  const auto error = error_of([&] { p.on_device(context); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::kInternal);
  for (const char* part : {"gemm bf16", "m 11 n 13 k 17", "CUBLAS_STATUS_INVALID_VALUE"})
    EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
}

TEST_F(CudaGemmRefusals, ARefusedPlainProductIsAnErrorThatNamesIt) {
  GemmProduct p({.m = 11, .n = 13, .k = 17}, DType::kBF16);
  emulation::blas_answers().heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
  Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
  const auto error = error_of([&] { p.on_device(context); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code(), ExitCode::kUnavailable);
  for (const char* part : {"gemm bf16", "m 11 n 13 k 17", "no algorithm"})
    EXPECT_NE(std::string(error->what()).find(part), std::string::npos) << error->what();
}

}  // namespace
}  // namespace ventris::testing
