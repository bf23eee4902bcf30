// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>

#include "backend/device/dtype.h"
#include "tests/emulation/controls.h"

struct EmulatedBlas {};
struct EmulatedMatmul {
  cublasComputeType_t compute;
  int32_t transpose_a = CUBLAS_OP_N;
  int32_t transpose_b = CUBLAS_OP_N;
  int32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;    // the bias, or its gradient
  int32_t vector_type = -1;  // that of d

  bool adds_bias() const { return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
  bool sums_operand() const {
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool has_vector() const { return adds_bias() || sums_operand(); }
};
struct EmulatedLayout {
  cudaDataType type;
  int64_t rows, cols, stride;

  size_t element() const { return type == CUDA_R_32F ? 4 : 2; }
  size_t bytes() const { return static_cast<size_t>((cols - 1) * stride + rows) * element(); }
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

  /// Elements of the bias, or of its gradient.
  int64_t vector_size() const { return operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? n : m; }
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

/// The gradient of a bias: the sums over k of op(a) [k, m] or op(b) [n, k], in as many parts as the product.
void sum_operand(const Product& p, const std::vector<float>& operand) {
  const bool of_a = p.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  for (int64_t r = 0; r < p.vector_size(); ++r) {
    float sum = 0.0F;
    for (int64_t piece = 0; piece < p.parts; ++piece) {
      float part = 0.0F;
      for (int64_t i = p.k * piece / p.parts; i < p.k * (piece + 1) / p.parts; ++i) {
        part += operand[static_cast<size_t>(of_a ? i * p.m + r : r * p.k + i)];
      }
      sum += part;
    }
    put(p.operation.vector, p.c.type, r, sum);
  }
}

/// column[r] = the sum over i of a[i, r] * b[i], as `parts` sums that are added at the end; a is [k, m].
void multiply_column(float* column, const float* a, const float* b, int64_t m, int64_t k, int64_t parts) {
  constexpr int64_t kTile = 64;  // stays in registers
  for (int64_t first = 0; first < m; first += kTile) {
    const int64_t count = std::min(kTile, m - first);
    float total[kTile] = {};
    for (int64_t piece = 0; piece < parts; ++piece) {
      float part[kTile] = {};
      for (int64_t i = k * piece / parts; i < k * (piece + 1) / parts; ++i) {
        const float* row = a + i * m + first;
        if (count == kTile) {
          for (int64_t r = 0; r < kTile; ++r) part[r] += b[i] * row[r];
        } else {
          for (int64_t r = 0; r < count; ++r) part[r] += b[i] * row[r];
        }
      }
      for (int64_t r = 0; r < kTile; ++r) total[r] += part[r];
    }
    std::copy_n(total, count, column + first);
  }
}

/// The lowest bit of the first sum in memory changes, every other time.
void disturb_sums(const Product& p) {
  static bool odd = false;
  odd = !odd;
  if (odd) *static_cast<unsigned char*>(p.operation.vector) ^= 1U;
}

void multiply(const Product& p) {
  const std::vector<float> a =
      packed(p.a, p.a_data, p.operation.compute, p.operation.transpose_a == CUBLAS_OP_N, p.k, p.m);  // [k, m]
  const std::vector<float> b =
      packed(p.b, p.b_data, p.operation.compute, p.operation.transpose_b == CUBLAS_OP_N, p.n, p.k);  // [n, k]
  std::vector<float> column(static_cast<size_t>(p.m));
  for (int64_t j = 0; j < p.n; ++j) {
    multiply_column(column.data(), a.data(), b.data() + j * p.k, p.m, p.k, p.parts);
    for (int64_t r = 0; r < p.m; ++r) {
      const int64_t index = j * p.c.stride + r;
      float sum = p.alpha * column[static_cast<size_t>(r)];
      if (p.beta != 0.0F) sum += p.beta * value(p.c_data, p.c.type, index);
      if (p.operation.adds_bias()) sum += value(p.operation.vector, p.c.type, r);
      if ((p.operation.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && !(sum > 0.0F)) sum = 0.0F;  // NaN too
      put(p.c_data, p.c.type, index, sum);
    }
  }
  if (p.operation.sums_operand()) sum_operand(p, p.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA ? a : b);
}

/// Whether the descriptions fit together, and some kernel of the library takes the types and the epilogue.
/// After the headers of cuBLASLt 13.0 and its manual: "Data Types Reference", cublasLtEpilogue_t and
/// cublasLtMatmulDescAttributes_t.
cublasStatus_t check(const EmulatedMatmul& o, const EmulatedLayout& a, const EmulatedLayout& b,
                     const EmulatedLayout& c, const EmulatedLayout& d) {
  const bool a_plain = o.transpose_a == CUBLAS_OP_N;
  const bool b_plain = o.transpose_b == CUBLAS_OP_N;
  const int64_t k = a_plain ? a.cols : a.rows;
  if ((a_plain ? a.rows : a.cols) != c.rows || (b_plain ? b.cols : b.rows) != c.cols ||
      (b_plain ? b.rows : b.cols) != k || d.rows != c.rows || d.cols != c.cols)
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const EmulatedLayout* layout : {&a, &b, &c, &d}) {
    if (layout->rows < 1 || layout->cols < 1 || layout->stride < layout->rows)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (o.has_vector() && o.vector == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const bool types = a.type == b.type && c.type == d.type && (c.type == a.type || c.type == CUDA_R_32F);
  if (!types || (o.has_vector() && o.vector_type != -1 && o.vector_type != d.type))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // Not in the manual: the library sums an operand only if its vectors lie along the sums.
  if (o.epilogue == CUBLASLT_EPILOGUE_BGRADA && !a_plain) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (o.epilogue == CUBLASLT_EPILOGUE_BGRADB && b_plain) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/// What an algorithm was found for, in its 64 bytes: which it is, and the alignments that it counts on.
struct Claim {
  enum Operand { kA, kB, kC, kD, kVector, kOperands };
  uint64_t mark = kMark;
  uint64_t algorithm = 1;
  uint64_t alignment[kOperands] = {};
  uint64_t unused = 0;

  bool known() const { return mark == kMark && algorithm >= 1 && algorithm <= kAlgorithms; }
};
static_assert(sizeof(Claim) == sizeof(cublasLtMatmulAlgo_t));

/// The first algorithm moves single elements, and has no epilogues but bias and ReLU; the others move
/// vectors, at multiples of 16 bytes.
size_t unit_of(uint64_t algorithm, const EmulatedLayout& layout) {
  constexpr size_t kVector = 16;
  return algorithm == 1 ? layout.element() : kVector;
}
bool takes_epilogue(uint64_t algorithm, const EmulatedMatmul& o) {
  return algorithm != 1 || !o.sums_operand();
}
/// Whether columns begin at multiples of the algorithm's unit if the matrix does.
bool strides_fit(uint64_t algorithm, std::initializer_list<const EmulatedLayout*> layouts) {
  return std::all_of(layouts.begin(), layouts.end(), [&](const EmulatedLayout* layout) {
    return layout->cols == 1 ||
           static_cast<size_t>(layout->stride) * layout->element() % unit_of(algorithm, *layout) == 0;
  });
}
/// Whether the operands may lie at addresses of the alignments that the heuristic was told.
bool told_alignment_fits(const Claim& claim, std::initializer_list<const EmulatedLayout*> layouts) {
  return std::equal(layouts.begin(), layouts.end(), claim.alignment,
                    [&](const EmulatedLayout* layout, uint64_t told) {
                      return told % unit_of(claim.algorithm, *layout) == 0;
                    });
}
Claim claim_of(const cublasLtMatmulAlgo_t* algorithm) {
  return algorithm == nullptr ? Claim{.mark = 0} : std::bit_cast<Claim>(*algorithm);
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

uint64_t alignment_of(const void* address) {
  constexpr uintptr_t kMost = 256;
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address) | kMost;
  return bits & (~bits + 1);
}

}  // namespace

ventris::emulation::BlasAnswers& ventris::emulation::blas_answers() {
  static BlasAnswers answers;
  return answers;
}

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
#define VENTRIS_NAME(name) \
  { name, #name }
  static const std::map<cublasStatus_t, const char*> names = {
      VENTRIS_NAME(CUBLAS_STATUS_SUCCESS),        VENTRIS_NAME(CUBLAS_STATUS_NOT_INITIALIZED),
      VENTRIS_NAME(CUBLAS_STATUS_ALLOC_FAILED),   VENTRIS_NAME(CUBLAS_STATUS_INVALID_VALUE),
      VENTRIS_NAME(CUBLAS_STATUS_ARCH_MISMATCH),  VENTRIS_NAME(CUBLAS_STATUS_EXECUTION_FAILED),
      VENTRIS_NAME(CUBLAS_STATUS_INTERNAL_ERROR), VENTRIS_NAME(CUBLAS_STATUS_NOT_SUPPORTED),
  };
#undef VENTRIS_NAME
  const auto found = names.find(status);
  return found == names.end() ? "unknown" : found->second;
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
      taken = take(operation->vector, from, bytes);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      taken = take(operation->vector_type, from, bytes);
      break;
  }
  return taken ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t leading_dimension) {
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

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (handle == nullptr || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (const int answer = ventris::emulation::blas_answers().heuristic)
    return static_cast<cublasStatus_t>(answer);
  const cublasStatus_t status = check(*operation, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const bool splits = (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  Claim claim;
  std::copy_n(preference->alignment, Claim::kVector, claim.alignment);
  // "Routines that don't dereference this pointer [...] depend on its value to determine expected pointer
  // alignment" (CUBLASLT_MATMUL_DESC_BIAS_POINTER).
  claim.alignment[Claim::kVector] = alignment_of(operation->vector);
  for (uint64_t algorithm = 1; algorithm <= kAlgorithms && *found < wanted; ++algorithm) {
    const size_t workspace = workspace_of(algorithm, *d);
    if (algorithm != 1 && (!splits || workspace > preference->workspace)) continue;
    claim.algorithm = algorithm;
    if (!takes_epilogue(algorithm, *operation) || !strides_fit(algorithm, {a, b, c, d}) ||
        !told_alignment_fits(claim, {a, b, c, d}))
      continue;
    cublasLtMatmulHeuristicResult_t result = {};
    result.algo = std::bit_cast<cublasLtMatmulAlgo_t>(claim);
    result.workspaceSize = workspace;
    results[(*found)++] = result;
  }
  return CUBLAS_STATUS_SUCCESS;
}
/// "CUBLAS_STATUS_SUCCESS doesn't fully guarantee [that the] algo will run (will fail if e.g. buffers are not
/// correctly aligned)"; the algorithm in the result is left as it was.
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  const Claim claim = claim_of(algorithm);
  if (!claim.known()) return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = workspace_of(claim.algorithm, *d);
  result->state = CUBLAS_STATUS_SUCCESS;
  const cublasStatus_t status = check(*operation, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const bool takes =
      takes_epilogue(claim.algorithm, *operation) && strides_fit(claim.algorithm, {a, b, c, d});
  return takes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  using ventris::emulation::on_device;
  const Claim claim = claim_of(algorithm);
  if (handle == nullptr || !claim.known() || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = check(*operation, *a_layout, *b_layout, *c_layout, *d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const size_t needed = workspace_of(claim.algorithm, *d_layout);
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
                        static_cast<int64_t>(claim.algorithm)};
  const size_t vector_bytes = static_cast<size_t>(product.vector_size()) * d_layout->element();
  constexpr uint64_t kWorkspaceAlignment = 16;
  if (!on_device(a, a_layout->bytes()) || !on_device(b, b_layout->bytes()) ||
      !on_device(d, d_layout->bytes()) ||
      (operation->has_vector() && !on_device(operation->vector, vector_bytes)) || needed > workspace_bytes ||
      (needed != 0 && (!on_device(workspace, needed) || alignment_of(workspace) < kWorkspaceAlignment)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (const int answer = ventris::emulation::blas_answers().with_epilogue;
      answer != 0 && operation->sums_operand())
    return static_cast<cublasStatus_t>(answer);
  const void* const addresses[] = {a, b, c, d, operation->vector};
  for (size_t i = 0; i < Claim::kOperands; ++i) {
    if (alignment_of(addresses[i]) < claim.alignment[i]) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (!takes_epilogue(claim.algorithm, *operation) ||
      !strides_fit(claim.algorithm, {a_layout, b_layout, c_layout, d_layout}))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& answers = ventris::emulation::blas_answers();
  const bool delayed = plain && operation->transpose_b == CUBLAS_OP_T;
  const int delay = !delayed ? 0 : operation->sums_operand() ? answers.sums_ms : answers.plain_ms;
  const bool unsteady = operation->sums_operand() && answers.unsteady.count(claim.algorithm) != 0;
  const cudaError_t queued = ventris::emulation::enqueue(stream, "product", [=] {
    multiply(product);
    if (unsteady) disturb_sums(product);
    ventris::emulation::pass_milliseconds(delay);
    if (needed != 0) std::memset(workspace, 0xFF, needed);  // it is the library's
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
