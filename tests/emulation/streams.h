#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/emulation/types.h"

// Private to the emulated runtime: its streams, and all else that it knows.

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

namespace ventris::emulation {

/// What the device and its driver know.
struct State {
  std::recursive_mutex mutex;
  std::set<EmulatedStream*> streams;
  std::map<const void*, size_t> pinned;
  std::map<const void*, int> shared_limits;
  int captures = 0;
  std::map<const void*, int64_t> kernel_launches;
  std::map<std::string, int64_t> other_launches;
  uint64_t idle_waits = 0;
  cudaError_t fault = cudaSuccess;  // sticky
  std::string fault_text;
  cudaError_t last = cudaSuccess;
  EmulatedStream default_stream;
};

State& state();
/// Held by each function of CUDA's and of controls.h.
#define VENTRIS_LOCK() const std::lock_guard<std::recursive_mutex> lock(::ventris::emulation::state().mutex)

/// The first fault stays, and is printed.
void set_fault(cudaError_t status, const std::string& text);

/// Does the work of a stream that came before `ticket`.
void execute_until(EmulatedStream& stream, uint64_t ticket);
void execute_all(EmulatedStream& stream);

/// Stands where the host waits; counts the waits that leave the device without work.
class HostWait {
 public:
  HostWait();
  ~HostWait();
  HostWait(const HostWait&) = delete;
  HostWait& operator=(const HostWait&) = delete;

 private:
  bool had_work_;
};

/// Null where there is no such stream.
EmulatedStream* valid(cudaStream_t stream);

/// The default stream waits for the streams that do not say otherwise, and does its work at once.
cudaError_t append(cudaStream_t handle, std::function<void()> task);
/// Work that launches() counts under `name`.
cudaError_t append(cudaStream_t stream, const char* name, std::function<void()> task);

}  // namespace ventris::emulation
