#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

/// The part of the CUDA runtime that the project uses, on the CPU, for tests only. The names, the signatures
/// and the meaning are CUDA's; what is stricter than a GPU:
/// - Work of a stream runs as late as it may: when something waits for it. Streams are ordered by events
/// alone. So a missing
///   synchronisation shows as a wrong result every time, not now and then.
/// - Host code that touches device memory dies by a signal; device memory is reachable only while device work
/// runs.
/// - Fresh device memory and fresh shared memory hold 0xFF bytes: NaN as f32 and bf16, -1 as an integer.
/// - Writes past an allocation, or past dynamic shared memory, are found after the kernel; reads and writes
/// more than a few
///   hundred bytes past die at once.
/// - Every other launch runs its blocks, and every other block its threads, in reverse order.
/// - Allocation and synchronisation during capture are errors.

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
/// One block runs at a time, so that a variable may stand for every block's own. It keeps the last block's
/// values: only dynamic shared memory is filled anew for every block.
#define __shared__ static

#define CUDART_VERSION 13000

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount = 16,
  cudaDevAttrComputeMode = 20,
  cudaDevAttrComputeCapabilityMajor = 75,
  cudaDevAttrComputeCapabilityMinor = 76,
  cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
enum cudaComputeMode {
  cudaComputeModeDefault = 0,
  cudaComputeModeProhibited = 2,
  cudaComputeModeExclusiveProcess = 3
};
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0, cudaStreamCaptureModeThreadLocal = 1 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0, cudaStreamCaptureStatusActive = 1 };
inline constexpr unsigned cudaStreamDefault = 0;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;
inline constexpr unsigned cudaHostAllocDefault = 0;

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  size_t totalGlobalMem;
  size_t sharedMemPerBlockOptin;
  int major, minor, multiProcessorCount;
};

struct cudaFuncAttributes {
  int maxThreadsPerBlock;
};

typedef struct EmulatedStream* cudaStream_t;
typedef struct EmulatedEvent* cudaEvent_t;
typedef struct EmulatedGraph* cudaGraph_t;
typedef struct EmulatedGraph* cudaGraphExec_t;

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void* attrs = nullptr;
  unsigned numAttrs = 0;
};

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int device);
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int device);
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
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
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

/// What a call returns: `status`, or the fault that the device met before. Kept for cudaGetLastError.
cudaError_t result(cudaError_t status);
/// Forgets the fault that a kernel or a copy met; a GPU would need a new process.
void clear_fault();
/// The machine as the runtime finds it, to be changed by tests.
struct Machine {
  int devices = 1;  // or $VENTRIS_EMULATED_DEVICES
  int driver =
      CUDART_VERSION;  // the newest CUDA that the driver knows; 0: no driver; or $VENTRIS_EMULATED_DRIVER
  bool kernel_image =
      true;  // whether the program has code for the device; not with $VENTRIS_EMULATED_NO_KERNELS
  cudaComputeMode mode = cudaComputeModeDefault;
  bool taken = false;  // by another process
};
Machine& machine();

/// How often the host has waited until the device had nothing left to do, which then stands idle.
uint64_t idle_waits();

/// Gives a stream work that libraries do: it runs in the order of the stream, while device memory can be
/// touched, and is captured like a kernel.
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);
/// Does work that streams hold, as if time passed, while `wanted` is true and there is any. From any thread.
void run_while(const std::function<bool()>& wanted);
/// Whether [address, address + bytes) is memory of the device.
bool on_device(const void* address, size_t bytes);
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

/// Of the thread that runs.
inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
