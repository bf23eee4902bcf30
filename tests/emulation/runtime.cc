// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/runtime.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "tests/emulation/block.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/random.h"
#include "tests/emulation/streams.h"
#include "tests/emulation/symbols.h"

namespace ventris::emulation {
namespace {

/// Shared memory that a kernel may declare beside its dynamic one, which counts for the limits: it is not
/// known here.
constexpr size_t kDeclared = 1024;

/// `what` gives the name of the work that is done.
void check_memory(const std::function<std::string()>& what) {
  const std::string text = overwritten();
  if (!text.empty()) set_fault(cudaErrorIllegalAddress, what() + ": " + text);
}

/// The larger of each.
void note(KernelRun& largest, const KernelRun& run) {
  largest.blocks = std::max(largest.blocks, run.blocks);
  largest.meetings = std::max(largest.meetings, run.meetings);
  largest.shared_bytes = std::max(largest.shared_bytes, run.shared_bytes);
}

}  // namespace

cudaError_t result(cudaError_t status) {
  State& s = state();
  if (s.fault != cudaSuccess) status = s.fault;
  if (status != cudaSuccess) s.last = status;
  return status;
}

void clear_fault() {
  VENTRIS_LOCK();
  state().fault = state().last = cudaSuccess;
  state().fault_text.clear();
}

int running_priority() {
  return state().priority;
}
uint64_t idle_waits() {
  VENTRIS_LOCK();
  return state().idle_waits;
}

std::map<std::string, int64_t> launches() {
  VENTRIS_LOCK();
  std::map<std::string, int64_t> by_name = state().other_launches;
  for (const auto& [kernel, count] : state().kernel_launches) by_name[kernel_name(kernel)] += count;
  return by_name;
}

std::map<std::string, KernelRun> kernel_runs() {
  VENTRIS_LOCK();
  std::map<std::string, KernelRun> by_name;
  for (const auto& [kernel, run] : state().kernel_runs) note(by_name[kernel_name(kernel)], run);
  return by_name;
}

KernelRun last_run() {
  VENTRIS_LOCK();
  return state().last_run;
}

void pass_milliseconds(int milliseconds) {
  VENTRIS_LOCK();
  state().clock += std::chrono::milliseconds(milliseconds);
}

cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> work, bool meets_ranks) {
  VENTRIS_LOCK();
  const auto task = [name, work = std::move(work)] {
    work();
    check_memory([name] { return std::string(name); });
  };
  return append(stream, name, task, meets_ranks);
}

void run_while(const std::function<bool()>& wanted) {
  VENTRIS_LOCK();
  while (wanted() && execute_any()) {
  }
}
bool on_device(const void* address, size_t bytes) {
  VENTRIS_LOCK();
  return in_device_memory(address, bytes);
}
cudaError_t set_shared_limit(const void* kernel, int bytes) {
  VENTRIS_LOCK();
  const size_t most = machine().shared_bytes - Machine::kReservedBytes - kDeclared;
  if (bytes < 0 || static_cast<size_t>(bytes) > most) return result(cudaErrorInvalidValue);
  state().shared_limits[kernel] = bytes;
  return result(cudaSuccess);
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  VENTRIS_LOCK();
  State& s = state();
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const auto limit = s.shared_limits.find(kernel);
  const size_t max = limit == s.shared_limits.end() ? 0 : static_cast<size_t>(limit->second);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535 ||
      config.dynamicSmemBytes > std::max<size_t>(max, (48 << 10) - kDeclared)) {
    return result(cudaErrorInvalidConfiguration);
  }
  if (!machine().idle_kernels.empty() && machine().idle_kernels.contains(kernel_name(kernel))) thread = [] {};
  const size_t shared_bytes = config.dynamicSmemBytes;
  const auto run = [kernel, grid, block, shared_bytes, thread = std::move(thread)] {
    const auto what = [&] {
      return fmt::format("kernel {} of {} x {} x {} blocks of {} threads", kernel_name(kernel), grid.x,
                         grid.y, grid.z, block.x * block.y * block.z);
    };
    try {
      const uint64_t meetings = run_grid({grid, block, shared_bytes}, next_random(), thread);
      state().last_run = {uint64_t{grid.x} * grid.y * grid.z, meetings, shared_bytes};
      note(state().kernel_runs[kernel], state().last_run);
    } catch (const KernelFault& fault) {
      set_fault(cudaErrorLaunchFailure, what() + ": " + fault.what());
    }
    check_memory(what);
  };
  const cudaError_t status = append(config.stream, EmulatedStream::Piece{run});
  if (status == cudaSuccess) ++s.kernel_launches[kernel];
  return status;
}

}  // namespace ventris::emulation

using ventris::emulation::state;
using ventris::emulation::State;

const char* cudaGetErrorString(cudaError_t status) {
  const State& s = state();
  return status != cudaSuccess && status == s.fault ? s.fault_text.c_str() : cudaGetErrorName(status);
}
cudaError_t cudaGetLastError() {
  VENTRIS_LOCK();
  const cudaError_t last = state().last;
  state().last = state().fault;
  return last;
}
