// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/emulation/types.h"

/// The part of the CUDA runtime that the project uses, on the CPU, for tests only. The names, the signatures
/// and the meaning are CUDA's; what is stricter than a GPU:
/// - Work of a stream runs as late as it may, when something waits for it; or at once, or in a random order
///   (controls.h). Streams are ordered by events alone. So a missing synchronisation shows as a wrong result
///   every time, not now and then.
/// - Every launch of a graph runs its nodes in another order that their edges allow.
/// - Host code that touches device memory dies by a signal; device memory is reachable only while device work
///   runs.
/// - Fresh device memory and fresh shared memory hold 0xFF bytes: NaN as f32 and bf16, -1 as an integer. An
///   allocation of more than 8 MiB does so in its first and last 4 MiB.
/// - Writes past an allocation, or past dynamic shared memory, are found after the kernel; reads and writes
///   more than a few hundred bytes past die at once.
/// - The blocks of a launch run in a random order, 4 to 8 of them in turns, and their threads in another
/// order every
///   time. All that is random follows from $VENTRIS_EMULATED_SEED, a number.
/// - Kernels that load or store at an address that is no multiple of the size of the type are found.
/// - The times of events are those of a clock that only the device's work moves on (controls.h).
/// - Allocation and synchronisation during capture are errors.
/// What tests see and change of it is in controls.h.

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int device);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int device);
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel, int threads,
                                                          size_t shared_bytes);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** address, size_t bytes);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void** address, size_t bytes);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemset(void* to, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t);
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height, cudaStream_t);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t*, unsigned flags, int priority);
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t, cudaStream_t, unsigned flags);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);

namespace ventris::emulation {

// Behind the templates below.
cudaError_t function_attributes(cudaFuncAttributes* attributes);
cudaError_t set_shared_limit(const void* kernel, int bytes);
cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread);

}  // namespace ventris::emulation

template <typename T>
cudaError_t cudaMalloc(T** address, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(address), bytes);
}
template <typename T>
cudaError_t cudaMallocHost(T** address, size_t bytes) {
  return cudaMallocHost(reinterpret_cast<void**>(address), bytes);
}
template <typename... P>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)(P...)) {
  return ventris::emulation::function_attributes(attributes);
}
template <typename... P>
cudaError_t cudaFuncSetAttribute(void (*kernel)(P...), cudaFuncAttribute, int value) {
  return ventris::emulation::set_shared_limit(reinterpret_cast<const void*>(kernel), value);
}
template <typename... P, typename... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(P...), A&&... arguments) {
  return ventris::emulation::launch(
      *config, reinterpret_cast<const void*>(kernel),
      [kernel, values = std::tuple<std::decay_t<P>...>(std::forward<A>(arguments)...)] {
        std::apply(kernel, values);
      });
}
