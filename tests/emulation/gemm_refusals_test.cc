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
  uintptr_t vector = 16;  // addresses that say alignments
  uintptr_t aux = 16;
  int32_t vector_type = -1;
  int64_t aux_stride = 128;
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
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, q.aux);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, q.aux_stride);
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
      {"bits of ReLU", epilogue(CUBLASLT_EPILOGUE_RELU_AUX), kDone, 2},
      {"bits of ReLU, an odd stride",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_DRELU;
         q.b_gap = 1;
       },
       kDone, 0},
      {"bits that are no multiple of 128",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
         q.aux_stride = 64;
       },
       kRefused},
      {"fewer bits than rows",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_DRELU;
         q.m = 192;
       },
       kRefused},
      {"bits of f32",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_DRELU;
         q.type = q.d_type = CUDA_R_32F;
       },
       kRefused},
      {"no address of bits",
       [](Question& q) {
         q.epilogue = CUBLASLT_EPILOGUE_DRELU;
         q.aux = 0;
       },
       kWrong},
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

/// Products with bits of ReLU that the library refuses, each for another reason: the program is told, and
/// the same product without bits is right.
TEST_F(CudaGemmRefusals, ProductsWithBitsThatAreRefusedAreDoneWithout) {
  constexpr int64_t kRows = 24;
  constexpr int64_t kCols = 160;
  constexpr int64_t kInner = 32;
  struct Case {
    const char* what;
    DType dtype = DType::kBF16;
    int64_t a_gap = 0, b_gap = 0, c_gap = 0;
    int64_t a_offset = 0;  // elements
    int64_t bits_gap = 0;  // of 16 bits
    int product = 0;       // the answer to the product itself
    bool taken = false;
  };
  const Case cases[] = {
      {.what = "nothing spoilt", .taken = true},
      {.what = "f32", .dtype = DType::kF32},
      {.what = "an odd stride of a", .a_gap = 1},
      {.what = "an odd stride of b", .b_gap = 3},
      {.what = "an odd stride of c", .c_gap = 2},
      {.what = "an address of a that is not aligned", .a_offset = 1},
      {.what = "bits that are no multiple of 128", .bits_gap = 4},
      {.what = "the product alone", .product = CUBLAS_STATUS_NOT_SUPPORTED},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    emulation::blas_answers().with_epilogue = one.product;
    Context context({.device = Device::kCuda, .scratch_bytes = 1 << 16});
    const Buffer a = Buffer::random(kRows, kInner, one.dtype, 1, 0.5);
    const Buffer b = Buffer::random(kInner, kCols, one.dtype, 2, 0.5);
    const DeviceMatrix device_a(a, one.a_gap);
    const DeviceMatrix device_b(b, one.b_gap);
    const DeviceMatrix c(kRows, kCols, one.dtype, one.c_gap);
    const DeviceMatrix bits(kRows, relu_bits_cols(kCols), DType::kBF16, one.bits_gap);
    GemmArgs args = {.a = device_a.view().col_range(one.a_offset, kInner - one.a_offset),
                     .b = device_b.view().row_range(one.a_offset, kInner - one.a_offset),
                     .c = c.view(),
                     .relu = true,
                     .relu_bits = bits.view()};
    EXPECT_EQ(gemm_takes_relu_bits(context, args), one.taken);
    args.relu_bits = {};
    gemm(context, args);
    VENTRIS_CUDA_CHECK(cudaStreamSynchronize(cuda::stream_of(context)));
    Buffer expected(kRows, kCols, one.dtype);
    gemm(cpu_context(), {.a = a.view().col_range(one.a_offset, kInner - one.a_offset),
                         .b = b.view().row_range(one.a_offset, kInner - one.a_offset),
                         .c = expected.view(),
                         .relu = true});
    expect_matches("c", c, expected, one.dtype);
  }
}

}  // namespace
}  // namespace ventris::testing
