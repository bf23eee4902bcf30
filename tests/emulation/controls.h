// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/emulation/types.h"

/// What tests, and the twins of libraries, see and change of the emulated device beyond CUDA's own functions.
namespace ventris::emulation {

/// The machine as the runtime finds it, to be changed by tests.
struct Machine {
  int devices = 1;  // or $VENTRIS_EMULATED_DEVICES
  int driver =
      CUDART_VERSION;  // the newest CUDA that the driver knows; 0: no driver; or $VENTRIS_EMULATED_DRIVER
  bool kernel_image =
      true;       // whether the program has code for the device; not with $VENTRIS_EMULATED_NO_KERNELS
  int major = 9;  // of the compute capability; the minor number is 0
  size_t shared_bytes = size_t{228} << 10;  // of a multiprocessor; or $VENTRIS_EMULATED_SHARED_KIB, in KiB
  static constexpr size_t kReservedBytes = 1024;  // of them, for each block
  size_t memory_bytes = size_t{4} << 30;  // or $VENTRIS_EMULATED_GIB; what is not touched costs nothing
  std::string model = "emulated";
  cudaComputeMode mode = cudaComputeModeDefault;
  bool taken = false;  // by another process
  int work_us = 1;     // of each piece of work by the clock of the device; or $VENTRIS_EMULATED_WORK_US
  std::set<std::string>
      idle_kernels;  // whose threads do nothing; or $VENTRIS_EMULATED_IDLE_KERNELS, with commas between
};
Machine& machine();

/// What the twin of cuBLASLt answers instead of doing what it is asked, to be changed by tests: a
/// cublasStatus_t; 0: what is right.
struct BlasAnswers {
  int heuristic = 0;      // to any question for algorithms
  int with_epilogue = 0;  // to products with sums of an operand
  // Milliseconds of the device's clock that products of op(a) = a and op(b) = b^T take longer, without and
  // with sums of an operand.
  int plain_ms = 0;
  int sums_ms = 0;
  std::set<uint64_t> unsteady = {};  // algorithms whose sums of an operand differ from run to run
};
BlasAnswers& blas_answers();

/// What a call returns: `status`, or the fault that the device met before. Kept for cudaGetLastError.
cudaError_t result(cudaError_t status);
/// Forgets the fault that a kernel or a copy met; a GPU would need a new process.
void clear_fault();

/// When streams do what they were given. Events order it, and nothing else.
enum class StreamOrder {
  kLate,    // when something waits for it
  kEager,   // at once
  kRandom,  // by chance, and with work of other streams between
};
/// $VENTRIS_EMULATED_STREAMS: "late", "eager" or "random"; late without it.
StreamOrder& stream_order();

/// How often the host has waited until the device had nothing left to do, which then stands idle. For late
/// streams.
uint64_t idle_waits();
/// How often the host has given each piece of work to a stream, or to the graph that the stream captures:
/// kernels by their names (symbols.h), "memset", "copy to device", "copy to host", "copy on device",
/// "graph", and the names that enqueue() is given.
std::map<std::string, int64_t> launches();

/// The priority of the work that runs, for that work: of its stream, or of the node of a graph.
int running_priority();
/// The largest of what the launches of a kernel had.
struct KernelRun {
  uint64_t blocks = 0;
  uint64_t meetings = 0;    // of the threads of a block (block.h)
  size_t shared_bytes = 0;  // dynamic, of a block
};
/// Of all kernels that have run to their end, by their names.
std::map<std::string, KernelRun> kernel_runs();
/// The last launch that has run to its end.
KernelRun last_run();

/// For work of a stream: it takes so long by the clock of the device. Its events have the times of that
/// clock, which goes on by Machine::work_us with each piece of work, and never by itself: what was measured
/// does not depend on how busy the machine is.
void pass_milliseconds(int milliseconds);

/// Gives a stream work that libraries do: it runs in the order of the stream, while device memory can be
/// touched, and is captured like a kernel. `name` is that of launches().
/// `meets_ranks`: it does not end before other processes have come; then the host runs it only where it waits
/// for it.
cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> work,
                    bool meets_ranks = false);
/// Does work that streams hold, as if time passed, while `wanted` is true and there is any. From any thread.
void run_while(const std::function<bool()>& wanted);
/// Whether [address, address + bytes) is memory of the device.
bool on_device(const void* address, size_t bytes);

}  // namespace ventris::emulation
