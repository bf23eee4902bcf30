// SPDX-License-Identifier: Apache-2.0
// The functions of cuBLASLt that this program calls, each passed on to the library, which the first call
// opens with all of them (backend/device/shared_library.h). tests/emulation defines its own in their place.

#include <cublasLt.h>

#include <string>

#include "backend/device/shared_library.h"

// As the toolkit's headers declare them: result, name, parameters, arguments.
#define VENTRIS_CUBLASLT_FUNCTIONS(F)                                                                        \
  F(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle), (handle))                                   \
  F(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle), (handle))                                    \
  F(const char*, cublasLtGetStatusName, (cublasStatus_t status), (status))                                   \
  F(const char*, cublasLtGetStatusString, (cublasStatus_t status), (status))                                 \
  F(size_t, cublasLtGetVersion, (), ())                                                                      \
  F(cublasStatus_t, cublasLtMatmul,                                                                          \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,              \
     cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,      \
     const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,               \
     const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream),   \
    (handle, operation, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algorithm,          \
     workspace, workspace_bytes, stream))                                                                    \
  F(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                                 \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,                      \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                           \
     const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result),                        \
    (handle, operation, a, b, c, d, algorithm, result))                                                      \
  F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                          \
    (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,                      \
     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                           \
     cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],             \
     int* count),                                                                                            \
    (handle, operation, a, b, c, d, preference, most, results, count))                                       \
  F(cublasStatus_t, cublasLtMatmulDescCreate,                                                                \
    (cublasLtMatmulDesc_t * operation, cublasComputeType_t compute, cudaDataType_t scale),                   \
    (operation, compute, scale))                                                                             \
  F(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t operation), (operation))                \
  F(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                          \
    (cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void* value,            \
     size_t bytes),                                                                                          \
    (operation, attribute, value, bytes))                                                                    \
  F(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference), (preference)) \
  F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference), (preference))  \
  F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                    \
    (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,                  \
     const void* value, size_t bytes),                                                                       \
    (preference, attribute, value, bytes))                                                                   \
  F(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                              \
    (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t cols, int64_t stride),      \
    (layout, type, rows, cols, stride))                                                                      \
  F(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout), (layout))

#define VENTRIS_TEXT(words) #words
#define VENTRIS_TEXT_OF(macro) VENTRIS_TEXT(macro)

namespace ventris {
namespace {

#define VENTRIS_MEMBER(result, name, parameters, arguments) decltype(::name)* name = nullptr;
#define VENTRIS_FIND(result, name, parameters, arguments) library.find(#name, name);

/// The library's functions.
struct CublasLt {
  VENTRIS_CUBLASLT_FUNCTIONS(VENTRIS_MEMBER)

  CublasLt() {
    const std::string major = VENTRIS_TEXT_OF(CUBLAS_VER_MAJOR);
    const SharedLibrary library("libcublasLt.so." + major,
                                "Install cuBLAS of CUDA " + major + ", or add its folder to LD_LIBRARY_PATH");
    VENTRIS_CUBLASLT_FUNCTIONS(VENTRIS_FIND)
  }
};

const CublasLt& cublas_lt() {
  static const CublasLt functions;
  return functions;
}

}  // namespace
}  // namespace ventris

#define VENTRIS_PASS_ON(result, name, parameters, arguments) \
  result name parameters {                                   \
    return ventris::cublas_lt().name arguments;              \
  }
VENTRIS_CUBLASLT_FUNCTIONS(VENTRIS_PASS_ON)
