// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL that this program calls, each passed on to the library, which the first call opens
// with all of them (backend/device/shared_library.h). tests/emulation defines its own in their place.

#include <nccl.h>

#include "backend/device/shared_library.h"

// As nccl.h declares them: result, name, parameters, arguments.
#define VENTRIS_NCCL_FUNCTIONS(F)                                                                           \
  F(ncclResult_t, ncclAllGather,                                                                            \
    (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream),  \
    (from, to, count, type, comm, stream))                                                                  \
  F(ncclResult_t, ncclAllReduce,                                                                            \
    (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm, \
     cudaStream_t stream),                                                                                  \
    (from, to, count, type, operation, comm, stream))                                                       \
  F(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm))                                                 \
  F(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))                                               \
  F(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))                                              \
  F(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error), (comm, error))            \
  F(ncclResult_t, ncclCommInitRankConfig,                                                                   \
    (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config),                        \
    (comm, ranks, id, rank, config))                                                                        \
  F(const char*, ncclGetErrorString, (ncclResult_t status), (status))                                       \
  F(const char*, ncclGetLastError, (ncclComm_t comm), (comm))                                               \
  F(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))                                               \
  F(ncclResult_t, ncclGetVersion, (int* version), (version))                                                \
  F(ncclResult_t, ncclGroupEnd, (), ())                                                                     \
  F(ncclResult_t, ncclGroupStart, (), ())                                                                   \
  F(ncclResult_t, ncclRecv,                                                                                 \
    (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),          \
    (to, count, type, peer, comm, stream))                                                                  \
  F(ncclResult_t, ncclReduceScatter,                                                                        \
    (const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm, \
     cudaStream_t stream),                                                                                  \
    (from, to, count, type, operation, comm, stream))                                                       \
  F(ncclResult_t, ncclSend,                                                                                 \
    (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),  \
    (from, count, type, peer, comm, stream))

namespace ventris {
namespace {

#define VENTRIS_MEMBER(result, name, parameters, arguments) decltype(::name)* name = nullptr;
#define VENTRIS_FIND(result, name, parameters, arguments) library.find(#name, name);

/// The library's functions.
struct Nccl {
  VENTRIS_NCCL_FUNCTIONS(VENTRIS_MEMBER)

  Nccl() {
    const SharedLibrary library("libnccl.so.2",
                                "Install NCCL 2.17 or newer, or add its folder to LD_LIBRARY_PATH");
    VENTRIS_NCCL_FUNCTIONS(VENTRIS_FIND)
  }
};

const Nccl& nccl() {
  static const Nccl functions;
  return functions;
}

}  // namespace
}  // namespace ventris

#define VENTRIS_PASS_ON(result, name, parameters, arguments) \
  result name parameters {                                   \
    return ventris::nccl().name arguments;                   \
  }
VENTRIS_NCCL_FUNCTIONS(VENTRIS_PASS_ON)
