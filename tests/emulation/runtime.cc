#include "tests/emulation/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/emulation/block.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/kernel_name.h"
#include "tests/emulation/memory.h"

struct EmulatedGraph {
  std::vector<std::function<void()>> nodes;
  std::set<EmulatedStream*> streams;   // that capture into it
  std::set<EmulatedStream*> unjoined;  // with work that the first stream does not wait for
  EmulatedStream* first = nullptr;
};
struct EmulatedStream {
  unsigned flags = 0;
  std::deque<std::function<void()>> work;
  uint64_t enqueued = 0;
  std::atomic<uint64_t> executed = 0;
  EmulatedGraph* capture = nullptr;
};
struct EmulatedEvent {
  EmulatedStream* stream = nullptr;  // that recorded it last
  uint64_t ticket = 0;               // work of that stream before it
  EmulatedGraph* capture = nullptr;
  std::thread::id recorder;  // whose queries let time pass; those of other threads only look
  std::shared_ptr<std::chrono::steady_clock::time_point> time;
};

namespace {

using ventris::emulation::DeviceAccess;
using ventris::emulation::KernelFault;
using ventris::emulation::result;

struct State {
  std::recursive_mutex mutex;
  std::set<EmulatedStream*> streams;
  std::map<const void*, size_t> pinned;
  std::map<const void*, int> shared_limits;
  int captures = 0;
  uint64_t grids = 0;  // that were run
  std::map<const void*, int64_t> kernel_launches;
  std::map<std::string, int64_t> other_launches;
  uint64_t idle_waits = 0;
  cudaError_t fault = cudaSuccess;  // sticky
  std::string fault_text;
  cudaError_t last = cudaSuccess;
  EmulatedStream default_stream;
};

State& state() {
  static State s;
  return s;
}

void set_fault(cudaError_t status, const std::string& text) {
  State& s = state();
  if (s.fault != cudaSuccess) return;
  s.fault = status;
  s.fault_text = text;
  std::fprintf(stderr, "emulated device: %s\n", text.c_str());
}

void execute_until(EmulatedStream& stream, uint64_t ticket) {
  State& s = state();
  const DeviceAccess access;
  while (stream.executed < ticket) {
    const std::function<void()> task = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.executed;
    if (s.fault == cudaSuccess) task();
  }
}
void execute_all(EmulatedStream& stream) {
  execute_until(stream, stream.enqueued);
}

bool has_work() {
  const auto& streams = state().streams;
  return std::any_of(streams.begin(), streams.end(),
                     [](const EmulatedStream* stream) { return stream->executed < stream->enqueued; });
}

/// Stands where the host waits; counts the waits that leave the device without work.
class HostWait {
 public:
  HostWait() : had_work_(has_work()) {}
  ~HostWait() {
    if (had_work_ && !has_work()) ++state().idle_waits;
  }
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

 private:
  bool had_work_;
};

EmulatedStream* valid(cudaStream_t stream) {
  if (stream == nullptr) return &state().default_stream;
  return state().streams.count(stream) != 0 ? stream : nullptr;
}

/// The default stream waits for the streams that do not say otherwise, and does its work at once.
cudaError_t enqueue(cudaStream_t handle, std::function<void()> task) {
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (stream->capture != nullptr) {
    if (stream != stream->capture->first) stream->capture->unjoined.insert(stream);
    stream->capture->nodes.push_back(std::move(task));
    return result(cudaSuccess);
  }
  if (handle == nullptr) {
    if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
    for (EmulatedStream* other : state().streams) {
      if ((other->flags & cudaStreamNonBlocking) == 0) execute_all(*other);
    }
  }
  stream->work.push_back(std::move(task));
  ++stream->enqueued;
  if (handle == nullptr) execute_all(*stream);
  return result(cudaSuccess);
}

/// Work that launches() counts under `name`.
cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> task) {
  const cudaError_t status = enqueue(stream, std::move(task));
  if (status == cudaSuccess) ++state().other_launches[name];
  return status;
}

/// `what` gives the name of the work that is done.
void check_memory(const std::function<std::string()>& what) {
  const std::string text = ventris::emulation::overwritten();
  if (!text.empty()) set_fault(cudaErrorIllegalAddress, what() + ": " + text);
}

bool pinned(const void* address, size_t bytes) {
  auto found = state().pinned.upper_bound(address);
  if (found == state().pinned.begin()) return false;
  --found;
  return static_cast<const char*>(address) + bytes <= static_cast<const char*>(found->first) + found->second;
}

#define VENTRIS_LOCK() const std::lock_guard<std::recursive_mutex> lock(state().mutex)

}  // namespace

namespace ventris::emulation {

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

cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> work) {
  VENTRIS_LOCK();
  return ::enqueue(stream, name, [name, work = std::move(work)] {
    work();
    check_memory([name] { return std::string(name); });
  });
}

void run_while(const std::function<bool()>& wanted) {
  VENTRIS_LOCK();
  for (bool any = true; any;) {
    any = false;
    for (EmulatedStream* stream : state().streams) {
      if (!wanted()) return;
      if (stream->executed == stream->enqueued) continue;
      execute_until(*stream, stream->executed + 1);
      any = true;
    }
  }
}
bool on_device(const void* address, size_t bytes) {
  VENTRIS_LOCK();
  return in_device_memory(address, bytes);
}
cudaError_t set_shared_limit(const void* kernel, int bytes) {
  VENTRIS_LOCK();
  if (bytes < 0 || bytes > 227 << 10) return result(cudaErrorInvalidValue);
  state().shared_limits[kernel] = bytes;
  return result(cudaSuccess);
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> thread) {
  VENTRIS_LOCK();
  State& s = state();
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const auto limit = s.shared_limits.find(kernel);
  const size_t max = limit == s.shared_limits.end() ? 48 << 10 : static_cast<size_t>(limit->second);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 0x7FFFFFFFU || grid.y > 65535 || grid.z > 65535 ||
      config.dynamicSmemBytes > std::max<size_t>(max, 48 << 10)) {
    return result(cudaErrorInvalidConfiguration);
  }
  const size_t shared_bytes = config.dynamicSmemBytes;
  const auto run = [kernel, grid, block, shared_bytes, thread = std::move(thread)] {
    const auto what = [&] {
      return fmt::format("kernel {} of {} x {} x {} blocks of {} threads", kernel_name(kernel), grid.x,
                         grid.y, grid.z, block.x * block.y * block.z);
    };
    try {
      run_grid(grid, block, shared_bytes, state().grids++ % 2 == 1, thread);
    } catch (const KernelFault& fault) {
      set_fault(cudaErrorLaunchFailure, what() + ": " + fault.what());
    }
    check_memory(what);
  };
  const cudaError_t status = ::enqueue(config.stream, run);
  if (status == cudaSuccess) ++s.kernel_launches[kernel];
  return status;
}

}  // namespace ventris::emulation

const char* cudaGetErrorString(cudaError_t status) {
  const State& s = state();
  return status != cudaSuccess && status == s.fault ? s.fault_text.c_str() : cudaGetErrorName(status);
}
cudaError_t cudaPeekAtLastError() {
  return state().last;
}
cudaError_t cudaGetLastError() {
  VENTRIS_LOCK();
  const cudaError_t last = state().last;
  state().last = state().fault;
  return last;
}

cudaError_t cudaMalloc(void** address, size_t bytes) {
  VENTRIS_LOCK();
  if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
  *address = ventris::emulation::allocate_device(bytes);
  return result(*address == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* address) {
  VENTRIS_LOCK();
  if (address == nullptr) return result(cudaSuccess);
  if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
  const cudaError_t status = cudaDeviceSynchronize();
  if (!ventris::emulation::free_device(address)) return result(cudaErrorInvalidValue);
  return status;
}
cudaError_t cudaMallocHost(void** address, size_t bytes) {
  VENTRIS_LOCK();
  *address = std::malloc(std::max<size_t>(bytes, 1));
  std::memset(*address, 0xFF, bytes);
  state().pinned[*address] = bytes;
  return result(cudaSuccess);
}
cudaError_t cudaFreeHost(void* address) {
  VENTRIS_LOCK();
  const cudaError_t status = cudaDeviceSynchronize();
  if (address != nullptr && state().pinned.erase(address) == 0) return result(cudaErrorInvalidValue);
  std::free(address);
  return status;
}

namespace {

/// Whether each end is where `kind` says.
bool ends_fit(void* to, size_t to_bytes, const void* from, size_t from_bytes, cudaMemcpyKind kind) {
  const bool to_device = ventris::emulation::in_device_memory(to, to_bytes);
  const bool from_device = ventris::emulation::in_device_memory(from, from_bytes);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  VENTRIS_LOCK();
  if (width == 0 || height == 0) return result(cudaSuccess);
  if (height > 1 && (to_pitch < width || from_pitch < width)) return result(cudaErrorInvalidValue);
  const auto extent = [&](size_t pitch) { return (height - 1) * pitch + width; };
  const auto copy = [=](const char* source) {
    for (size_t r = 0; r < height; ++r)
      std::memmove(static_cast<char*>(to) + r * to_pitch, source + r * from_pitch, width);
  };
  if (!ends_fit(to, extent(to_pitch), from, extent(from_pitch), kind)) return result(cudaErrorInvalidValue);
  const auto* begin = static_cast<const char*>(from);
  const bool from_host = !ventris::emulation::in_device_memory(from, extent(from_pitch));
  const bool to_host = !ventris::emulation::in_device_memory(to, extent(to_pitch));
  const char* name = to_host ? "copy to host" : from_host ? "copy to device" : "copy on device";
  if (from_host && !pinned(from, extent(from_pitch))) {  // read before the call returns
    return enqueue(stream, name, [copy, kept = std::vector<char>(begin, begin + extent(from_pitch))] {
      copy(kept.data());
    });
  }
  const cudaError_t status = enqueue(stream, name, [copy, begin] { copy(begin); });
  if (status != cudaSuccess || !to_host || pinned(to, extent(to_pitch)) || stream == nullptr ||
      stream->capture != nullptr)
    return status;
  const HostWait wait;
  execute_all(*stream);  // pageable memory is written before the call returns
  return result(cudaSuccess);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  VENTRIS_LOCK();
  if (bytes == 0) return result(cudaSuccess);
  if (!ventris::emulation::in_device_memory(to, bytes)) return result(cudaErrorInvalidValue);
  return enqueue(stream, "memset", [to, value, bytes] { ventris::emulation::fill_device(to, value, bytes); });
}
cudaError_t cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  VENTRIS_LOCK();
  if (width == 0 || height == 0) return result(cudaSuccess);
  if (!ventris::emulation::in_device_memory(to, (height - 1) * pitch + width))
    return result(cudaErrorInvalidValue);
  return enqueue(stream, "memset", [to, pitch, value, width, height] {
    for (size_t r = 0; r < height; ++r) std::memset(static_cast<char*>(to) + r * pitch, value, width);
  });
}
cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return cudaMemsetAsync(to, value, bytes, nullptr);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  VENTRIS_LOCK();
  *stream = new EmulatedStream;
  (*stream)->flags = flags;
  state().streams.insert(*stream);
  return result(cudaSuccess);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  VENTRIS_LOCK();
  if (valid(stream) == nullptr || stream == nullptr) return result(cudaErrorInvalidValue);
  execute_all(*stream);
  state().streams.erase(stream);
  delete stream;
  return result(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  VENTRIS_LOCK();
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (stream->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  const HostWait wait;
  execute_all(*stream);
  return result(cudaSuccess);
}
cudaError_t cudaDeviceSynchronize() {
  VENTRIS_LOCK();
  if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
  const HostWait wait;
  for (EmulatedStream* stream : state().streams) execute_all(*stream);
  return result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new EmulatedEvent;
  return result(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return result(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  VENTRIS_LOCK();
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  event->stream = stream;
  event->recorder = std::this_thread::get_id();
  event->capture = stream->capture;
  if (stream->capture != nullptr) return result(cudaSuccess);
  event->time = std::make_shared<std::chrono::steady_clock::time_point>();
  const cudaError_t status =
      enqueue(handle, [time = event->time] { *time = std::chrono::steady_clock::now(); });
  event->ticket = stream->enqueued;
  return status;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  VENTRIS_LOCK();
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (event->stream == nullptr) return result(cudaSuccess);
  if (event->capture != nullptr) {
    if (stream->capture != nullptr && stream->capture != event->capture)
      return result(cudaErrorStreamCaptureIsolation);
    stream->capture = event->capture;
    stream->capture->streams.insert(stream);
    if (stream == stream->capture->first) {
      stream->capture->unjoined.erase(event->stream);
    } else {
      stream->capture->unjoined.insert(stream);
    }
    return result(cudaSuccess);
  }
  if (stream->capture != nullptr) return result(cudaErrorStreamCaptureIsolation);
  return enqueue(handle, [other = event->stream, ticket = event->ticket] {
    if (state().streams.count(other) != 0) execute_until(*other, ticket);
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  VENTRIS_LOCK();
  if (event->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  const HostWait wait;
  if (event->stream != nullptr && valid(event->stream) != nullptr)
    execute_until(*event->stream, event->ticket);
  return result(cudaSuccess);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event->stream == nullptr || event->stream->executed >= event->ticket) return cudaSuccess;
  if (event->recorder != std::this_thread::get_id()) return cudaErrorNotReady;
  VENTRIS_LOCK();
  execute_until(*event->stream, event->stream->executed + 1);  // time passes
  return cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  VENTRIS_LOCK();
  if (!begin->time || !end->time) return result(cudaErrorInvalidValue);
  if (end->stream->executed < end->ticket) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *begin->time).count();
  return result(cudaSuccess);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  VENTRIS_LOCK();
  if (stream == nullptr || valid(stream) == nullptr || stream->capture != nullptr)
    return result(cudaErrorInvalidValue);
  stream->capture = new EmulatedGraph;
  stream->capture->first = stream;
  stream->capture->streams.insert(stream);
  ++state().captures;
  return result(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  VENTRIS_LOCK();
  *graph = nullptr;
  if (stream == nullptr || stream->capture == nullptr || stream->capture->first != stream) {
    return result(cudaErrorStreamCaptureUnmatched);
  }
  EmulatedGraph* captured = stream->capture;
  for (EmulatedStream* one : captured->streams) one->capture = nullptr;
  --state().captures;
  if (!captured->unjoined.empty()) {
    delete captured;
    return result(cudaErrorStreamCaptureUnjoined);
  }
  *graph = captured;
  return result(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream != nullptr && stream->capture != nullptr ? cudaStreamCaptureStatusActive
                                                            : cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new EmulatedGraph{graph->nodes, {}, {}, nullptr};
  return result(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  VENTRIS_LOCK();
  return enqueue(stream, "graph", [nodes = exec->nodes] {
    for (const auto& node : nodes) {
      if (state().fault == cudaSuccess) node();
    }
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return result(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return result(cudaSuccess);
}
