// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <climits>
#include <cstddef>
#include <cstdint>

/// The part of NCCL that the project uses, between processes of one host, for tests only. The names, the
/// signatures and the meaning are NCCL's. What is stricter or simpler:
/// - A thread of its own launches what is asked for, a while later, into the stream or the graph that it
/// captures then;
///   until then ncclCommGetAsyncError says ncclInProgress.
/// - A sum is work of its stream and runs as late as the rest of it (tests/emulation/runtime.h); it also runs
/// when
///   another rank has begun the same sum, as a GPU would long have done it.
/// - A sum that is captured in a graph on some ranks alone, which NCCL forbids, fails.
/// - Messages are sent and received in groups alone; a group is of one communicator and one stream.
/// - Ranks that ask for different collectives, or for different counts or types, fail.
/// - Every rank adds the numbers in the order of the ranks, so that all come to the same bits.
/// - NCCL_COMM_BLOCKING overrides the configuration, of which only 0 is taken.
/// - A lost rank and a failed sum leave the others in a kernel that does not end, until ncclCommAbort.
/// - Two ranks are on one device where host, or NCCL_HOSTID, and the device's identity are the same.
/// $VENTRIS_EMULATED_NCCL_ERROR, "RANK:N", makes sum N (from 1, of all collectives) of a rank fail while the
/// device works. $VENTRIS_EMULATED_NCCL_VERSION is the version that the library says it is, as 22809.
/// $VENTRIS_EMULATED_NCCL_HANG, "RANK:N", stops the process of a rank (SIGSTOP) where it would begin sum N.

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_INITIALIZER \
  { NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT }

typedef struct ncclComm* ncclComm_t;
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef struct {
  int blocking;
  int maxCTAs;
} ncclConfig_t;

enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclRedOp_t { ncclSum = 0 };
enum ncclDataType_t { ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 };

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
const char* ncclGetErrorString(ncclResult_t result);
const char* ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count_of_rank, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void* from, void* to, size_t count_of_rank, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream);

namespace ventris::emulation {

/// What tests change, and what they see.
struct NcclHooks {
  int version = 22809;
  uint64_t failing_sum = 0;  // the sum of this rank that fails, counted from 1 in each communicator; 0: none
  int priority = 0;          // of the device's work at the last sum or message
  /// NCCL_GRAPH_REGISTER as the newest communicator reads it.
  bool registers_graphs = true;
};
NcclHooks& nccl_hooks();

}  // namespace ventris::emulation
