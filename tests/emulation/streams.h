// SPDX-License-Identifier: Apache-2.0
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

#include "tests/emulation/controls.h"
#include "tests/emulation/types.h"

// Private to the emulated runtime: its streams, and all else that it knows.

struct EmulatedEvent;

struct EmulatedGraph {
  struct Node {
    std::function<void()> work;
    std::vector<size_t> after;     // nodes
    const EmulatedStream* stream;  // that captured it: a number, it may be gone
    int priority;                  // of that stream
    bool meets_ranks;
  };
  std::vector<Node> nodes;
  std::vector<EmulatedEvent*> records = {};  // that each launch records
  bool node_priorities = false;  // otherwise all have that of the stream in which the graph is launched
};
/// A capture that is under way, or ended.
struct EmulatedCapture {
  EmulatedGraph graph;
  std::set<EmulatedStream*> streams;
  EmulatedStream* first = nullptr;  // null once it has ended
};
struct EmulatedStream {
  /// Work, or the wait for work of another stream.
  struct Piece {
    std::function<void()> work;
    EmulatedStream* other = nullptr;
    uint64_t ticket = 0;
    bool meets_ranks = false;  // does not end before other processes have come
  };
  unsigned flags = 0;
  int priority = 0;
  std::deque<Piece> work;
  uint64_t enqueued = 0;
  std::atomic<uint64_t> executed = 0;
  std::shared_ptr<EmulatedCapture> capture;
  std::vector<size_t> last;  // nodes of the capture that the next one comes after
};
struct EmulatedEvent {
  EmulatedStream* stream = nullptr;  // that recorded it last
  uint64_t ticket = 0;               // work of that stream before it
  std::shared_ptr<EmulatedCapture> capture;
  std::vector<size_t> last;  // nodes of the capture before it
  std::thread::id recorder;  // whose queries let time pass; those of other threads only look
  std::shared_ptr<std::chrono::nanoseconds> time;  // by the clock of the device, once it is recorded
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
  std::map<const void*, KernelRun> kernel_runs;
  KernelRun last_run;
  std::chrono::nanoseconds clock = {};
  uint64_t idle_waits = 0;
  int priority = 0;                 // of the work that runs
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
/// Moves the device's clock on by one piece of work.
void pass_time_of_work();

/// Does the work of a stream that came before `ticket`, and what that waits for.
void execute_until(EmulatedStream& stream, uint64_t ticket);
void execute_all(EmulatedStream& stream);
/// Does one piece of the work of any stream; false if there is none.
bool execute_any();

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
cudaError_t append(cudaStream_t handle, EmulatedStream::Piece piece);
/// Work that launches() counts under `name`.
cudaError_t append(cudaStream_t stream, const char* name, std::function<void()> task,
                   bool meets_ranks = false);

}  // namespace ventris::emulation
