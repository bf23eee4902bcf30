#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/dtype.h"
#include "tests/emulation/controls.h"

struct EmulatedBlas {};
struct EmulatedMatmul {
  cublasComputeType_t compute;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  // that of d
  char* aux = nullptr;     // bits of ReLU
  int64_t aux_stride = 0;

  bool has_aux() const { return (epilogue & 128) != 0; }
};
struct EmulatedLayout {
  cudaDataType type;
  int64_t rows, cols, stride;

  size_t bytes() const {
    return static_cast<size_t>((cols - 1) * stride + rows) * (type == CUDA_R_32F ? 4 : 2);
  }
};
struct EmulatedPreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

using ventris::BF16;

constexpr uint64_t kAlgorithms = 3;  // 1: one sum; 2 and 3: that many partial sums, added at the end
constexpr uint64_t kMark = 0x56656E74726973U;

/// A product whose arguments are right.
struct Product {
  EmulatedMatmul operation;
  EmulatedLayout a, b, c;  // d is c
  float alpha, beta;
  const void *a_data, *b_data;
  void* c_data;
  int64_t m, n, k;
  int64_t parts;
};

float value(const void* data, cudaDataType type, int64_t index) {
  return type == CUDA_R_32F ? static_cast<const float*>(data)[index]
                            : static_cast<float>(static_cast<const BF16*>(data)[index]);
}
void put(void* data, cudaDataType type, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<BF16*>(data)[index] = BF16(value);
  }
}

/// As cvt.rna.tf32.f32 rounds, the instruction from f32 to TF32 (PTX ISA, cvt): 10 bits of mantissa, to the
/// nearest, ties away from zero. NaN and infinity stay.
float in_tf32(float x) {
  constexpr uint32_t kLost = (1U << 13) - 1;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::isfinite(x) ? std::bit_cast<float>((bits + (kLost + 1) / 2) & ~kLost) : x;
}

/// op(matrix) in f32, [rows, cols] by rows, as products with that compute type read it.
std::vector<float> packed(const EmulatedLayout& layout, const void* data, cublasComputeType_t compute,
                          bool transposed, int64_t rows, int64_t cols) {
  const bool tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 && layout.type == CUDA_R_32F;
  std::vector<float> to(static_cast<size_t>(rows * cols));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const float x = value(data, layout.type, transposed ? r * layout.stride + c : c * layout.stride + r);
      to[static_cast<size_t>(r * cols + c)] = tf32 ? in_tf32(x) : x;
    }
  }
  return to;
}

void multiply(const Product& p) {
  const std::vector<float> a =
      packed(p.a, p.a_data, p.operation.compute, p.operation.transpose_a == CUBLAS_OP_N, p.k, p.m);  // [k, m]
  const std::vector<float> b =
      packed(p.b, p.b_data, p.operation.compute, p.operation.transpose_b == CUBLAS_OP_N, p.n, p.k);  // [n, k]
  std::vector<float> column(static_cast<size_t>(p.m));
  std::vector<float> part(static_cast<size_t>(p.m));
  for (int64_t j = 0; j < p.n; ++j) {
    std::fill(column.begin(), column.end(), 0.0F);
    for (int64_t piece = 0; piece < p.parts; ++piece) {
      std::fill(part.begin(), part.end(), 0.0F);
      for (int64_t i = p.k * piece / p.parts; i < p.k * (piece + 1) / p.parts; ++i) {
        const float factor = b[static_cast<size_t>(j * p.k + i)];
        const float* row = a.data() + i * p.m;
        for (int64_t r = 0; r < p.m; ++r) part[static_cast<size_t>(r)] += factor * row[r];
      }
      for (int64_t r = 0; r < p.m; ++r) column[static_cast<size_t>(r)] += part[static_cast<size_t>(r)];
    }
    for (int64_t r = 0; r < p.m; ++r) {
      const int64_t index = j * p.c.stride + r;
      float sum = p.alpha * column[static_cast<size_t>(r)];
      if (p.beta != 0.0F) sum += p.beta * value(p.c_data, p.c.type, index);
      if ((p.operation.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) sum += value(p.operation.bias, p.c.type, r);
      if ((p.operation.epilogue & CUBLASLT_EPILOGUE_RELU) != 0)
        sum = sum > 0.0F ? sum : sum < 0.0F ? 0.0F : sum;
      if (p.operation.has_aux()) {
        const int64_t bit = j * p.operation.aux_stride + r;
        char& byte = p.operation.aux[bit / 8];
        const int mask = 1 << (bit % 8);
        if (p.operation.epilogue != CUBLASLT_EPILOGUE_DRELU) {
          byte = static_cast<char>(sum > 0.0F ? byte | mask : byte & ~mask);
        } else if ((byte & mask) == 0) {
          sum = 0.0F;
        }
      }
      put(p.c_data, p.c.type, index, sum);
    }
  }
}

/// Whether the descriptions fit together and the library has a kernel for the types.
cublasStatus_t check(const EmulatedMatmul& o, const EmulatedLayout& a, const EmulatedLayout& b,
                     const EmulatedLayout& c, const EmulatedLayout& d) {
  const bool a_plain = o.transpose_a == CUBLAS_OP_N;
  const bool b_plain = o.transpose_b == CUBLAS_OP_N;
  const int64_t k = a_plain ? a.cols : a.rows;
  if ((a_plain ? a.rows : a.cols) != c.rows || (b_plain ? b.cols : b.rows) != c.cols ||
      (b_plain ? b.rows : b.cols) != k || d.rows != c.rows || d.cols != c.cols)
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool types = a.type == b.type && c.type == d.type && (c.type == a.type || c.type == CUDA_R_32F);
  const bool bias = (o.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (!types || (bias && o.bias_type != -1 && o.bias_type != d.type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  constexpr int64_t kAuxUnit = 128;
  if (o.has_aux()) {
    if (o.aux == nullptr || o.aux_stride % kAuxUnit != 0 || o.aux_stride < d.rows)
      return CUBLAS_STATUS_INVALID_VALUE;
    if (d.type == CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;  // so that tests meet both answers
  }
  return bias && o.bias == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

bool known(const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[0] == kMark && algorithm.data[1] >= 1 && algorithm.data[1] <= kAlgorithms;
}
size_t workspace_of(uint64_t algorithm, const EmulatedLayout& c) {
  return algorithm == 1 ? 0 : algorithm * static_cast<size_t>(c.rows * c.cols) * sizeof(float);
}

template <typename T>
bool take(T& to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return false;
  std::memcpy(&to, from, bytes);
  return true;
}

bool aligned(const void* address, size_t bytes) {
  return reinterpret_cast<uintptr_t>(address) % bytes == 0;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new EmulatedBlas;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
size_t cublasLtGetVersion() {
  return 130000;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *operation = new EmulatedMatmul{.compute = compute};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation,
                                              cublasLtMatmulDescAttributes_t attribute, const void* from,
                                              size_t bytes) {
  bool taken = false;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      taken = take(operation->transpose_a, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      taken = take(operation->transpose_b, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      taken = take(operation->epilogue, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      taken = take(operation->bias, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      taken = take(operation->aux, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      taken = take(operation->aux_stride, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      taken = take(operation->bias_type, from, bytes);
      break;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t leading_dimension) {
  if (rows == 0 || cols == 0 || leading_dimension < static_cast<int64_t>(rows))
    return CUBLAS_STATUS_INVALID_VALUE;
  *layout =
      new EmulatedLayout{type, static_cast<int64_t>(rows), static_cast<int64_t>(cols), leading_dimension};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedPreference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  bool taken = false;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      taken = take(preference->workspace, from, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      taken = take(preference->reductions, from, bytes);
      break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      taken =
          take(preference->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], from, bytes);
      break;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/// An algorithm remembers for which alignment it was found.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const cublasStatus_t status = check(*operation, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const bool splits = (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  for (uint64_t algorithm = 1; algorithm <= kAlgorithms && *found < wanted; ++algorithm) {
    if (algorithm != 1 && (!splits || workspace_of(algorithm, *d) > preference->workspace)) continue;
    cublasLtMatmulHeuristicResult_t result = {};
    result.algo.data[0] = kMark;
    result.algo.data[1] = algorithm;
    for (int i = 0; i < 4; ++i) result.algo.data[2 + i] = preference->alignment[i];
    result.workspaceSize = workspace_of(algorithm, *d);
    results[(*found)++] = result;
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!known(*algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  *result = {};
  result->algo = *algorithm;
  result->workspaceSize = workspace_of(algorithm->data[1], *d);
  return check(*operation, *a, *b, *c, *d);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  using ventris::emulation::on_device;
  if (handle == nullptr || algorithm == nullptr || !known(*algorithm) || c != d)
    return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = check(*operation, *a_layout, *b_layout, *c_layout, *d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const size_t needed = workspace_of(algorithm->data[1], *d_layout);
  const bool bias = (operation->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const size_t bias_bytes = static_cast<size_t>(d_layout->rows) * (d_layout->type == CUDA_R_32F ? 4 : 2);
  if (!on_device(a, a_layout->bytes()) || !on_device(b, b_layout->bytes()) ||
      !on_device(d, d_layout->bytes()) || (bias && !on_device(operation->bias, bias_bytes)) ||
      (operation->has_aux() &&
       !on_device(operation->aux, static_cast<size_t>(d_layout->cols * operation->aux_stride / 8))) ||
      needed > workspace_bytes || (needed != 0 && !on_device(workspace, needed)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t* alignment = algorithm->data + 2;
  if (!aligned(a, alignment[0]) || !aligned(b, alignment[1]) || !aligned(c, alignment[2]) ||
      !aligned(d, alignment[3]))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain = operation->transpose_a == CUBLAS_OP_N;
  const Product product{*operation,
                        *a_layout,
                        *b_layout,
                        *d_layout,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        a,
                        b,
                        d,
                        d_layout->rows,
                        d_layout->cols,
                        plain ? a_layout->cols : a_layout->rows,
                        static_cast<int64_t>(algorithm->data[1])};
  const cudaError_t queued = ventris::emulation::enqueue(stream, "product", [product, workspace, needed] {
    multiply(product);
    if (needed != 0) std::memset(workspace, 0xFF, needed);  // it is the library's
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
