// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/emulation/controls.h"
#include "tests/emulation/memory.h"
#include "tests/emulation/random.h"
#include "tests/emulation/runtime.h"

namespace ventris::emulation {
namespace {

bool has_work() {
  const auto& streams = state().streams;
  return std::any_of(streams.begin(), streams.end(),
                     [](const EmulatedStream* stream) { return stream->executed < stream->enqueued; });
}

}  // namespace

State& state() {
  static State s;
  return s;
}

void set_fault(cudaError_t status, const std::string& text) {
  State& s = state();
  if (s.fault != cudaSuccess) return;
  s.fault = status;
  s.fault_text = text + " (" + seed_text() + ")";
  std::fprintf(stderr, "emulated device: %s\n", s.fault_text.c_str());
}

void pass_time_of_work() {
  state().clock += std::chrono::microseconds(machine().work_us);
}

namespace {

bool ready(const EmulatedStream& stream) {
  if (stream.work.empty()) return false;
  const EmulatedStream::Piece& piece = stream.work.front();
  return piece.other == nullptr || state().streams.count(piece.other) == 0 ||
         piece.other->executed >= piece.ticket;
}

void execute_front(EmulatedStream& stream) {
  const EmulatedStream::Piece piece = std::move(stream.work.front());
  stream.work.pop_front();
  state().priority = stream.priority;
  if (state().fault == cudaSuccess && piece.work) {
    pass_time_of_work();
    piece.work();
  }
  ++stream.executed;
}

/// A stream whose next piece can be done, or null. Without those that meet other ranks: nothing else waits
/// for them.
EmulatedStream* any_ready(Random& random, bool meets_ranks = false) {
  EmulatedStream* found = nullptr;
  uint64_t count = 0;
  for (EmulatedStream* stream : state().streams) {
    if (!ready(*stream) || (stream->work.front().meets_ranks && !meets_ranks)) continue;
    if (random.one_in(++count)) found = stream;
  }
  return found;
}

/// After work was enqueued.
void let_time_pass() {
  if (stream_order() == StreamOrder::kLate) return;
  Random random = next_random();
  const DeviceAccess access;
  const bool eager = stream_order() == StreamOrder::kEager;
  for (uint64_t left = random.below(4) * random.below(3); eager || left != 0; --left) {
    EmulatedStream* any = any_ready(random);
    if (any == nullptr) return;
    execute_front(*any);
  }
}

}  // namespace

StreamOrder& stream_order() {
  static StreamOrder order = [] {
    const char* wish = std::getenv("VENTRIS_EMULATED_STREAMS");
    const std::string name = wish == nullptr ? "late" : wish;
    return name == "eager"    ? StreamOrder::kEager
           : name == "random" ? StreamOrder::kRandom
                              : StreamOrder::kLate;
  }();
  return order;
}

void execute_until(EmulatedStream& stream, uint64_t ticket) {
  if (stream.executed >= ticket) return;
  Random random = next_random();
  const DeviceAccess access;
  while (stream.executed < ticket) {
    EmulatedStream* next = &stream;
    while (!ready(*next)) next = next->work.front().other;
    if (stream_order() == StreamOrder::kRandom && random.one_in(2)) {
      if (EmulatedStream* any = any_ready(random)) next = any;
    }
    execute_front(*next);
  }
}
void execute_all(EmulatedStream& stream) {
  execute_until(stream, stream.enqueued);
}
bool execute_any() {
  Random random = next_random();
  EmulatedStream* stream = any_ready(random, /*meets_ranks=*/true);
  if (stream == nullptr) return false;
  const DeviceAccess access;
  execute_front(*stream);
  return true;
}

HostWait::HostWait() : had_work_(has_work()) {}
HostWait::~HostWait() {
  if (had_work_ && !has_work()) ++state().idle_waits;
}

EmulatedStream* valid(cudaStream_t stream) {
  if (stream == nullptr) return &state().default_stream;
  return state().streams.count(stream) != 0 ? stream : nullptr;
}

cudaError_t append(cudaStream_t handle, EmulatedStream::Piece piece) {
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (stream->capture) {
    std::vector<EmulatedGraph::Node>& nodes = stream->capture->graph.nodes;
    nodes.push_back({std::move(piece.work), stream->last, stream, stream->priority, piece.meets_ranks});
    stream->last = {nodes.size() - 1};
    return result(cudaSuccess);
  }
  if (handle == nullptr) {
    if (state().captures != 0) return result(cudaErrorStreamCaptureUnsupported);
    for (EmulatedStream* other : state().streams) {
      if ((other->flags & cudaStreamNonBlocking) == 0) execute_all(*other);
    }
  }
  stream->work.push_back(std::move(piece));
  ++stream->enqueued;
  if (handle == nullptr) {
    execute_all(*stream);
  } else {
    let_time_pass();
  }
  return result(cudaSuccess);
}

cudaError_t append(cudaStream_t stream, const char* name, std::function<void()> task, bool meets_ranks) {
  const cudaError_t status = append(stream, EmulatedStream::Piece{std::move(task), nullptr, 0, meets_ranks});
  if (status == cudaSuccess) ++state().other_launches[name];
  return status;
}

}  // namespace ventris::emulation

namespace {

// Those of a GPU of compute capability 9.0. A smaller number goes first.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

}  // namespace

using ventris::emulation::append;
using ventris::emulation::execute_all;
using ventris::emulation::execute_until;
using ventris::emulation::HostWait;
using ventris::emulation::result;
using ventris::emulation::state;
using ventris::emulation::valid;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeastPriority);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  VENTRIS_LOCK();
  *stream = new EmulatedStream;
  (*stream)->flags = flags;
  (*stream)->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  state().streams.insert(*stream);
  return result(cudaSuccess);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeastPriority;
  *greatest = kGreatestPriority;
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
  if (stream->capture) return result(cudaErrorStreamCaptureUnsupported);
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
  event->last = stream->last;
  if (stream->capture) return result(cudaSuccess);
  event->time = std::make_shared<std::chrono::nanoseconds>();
  event->ticket = stream->enqueued + 1;
  return append(handle, EmulatedStream::Piece{[time = event->time] { *time = state().clock; }});
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  VENTRIS_LOCK();
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (flags == cudaEventRecordDefault || !stream->capture) return cudaEventRecord(event, handle);
  // A node of the graph: each replay records the event.
  stream->capture->graph.records.push_back(event);
  return append(handle, EmulatedStream::Piece{[event] {
                  event->time = std::make_shared<std::chrono::nanoseconds>(state().clock);
                }});
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  VENTRIS_LOCK();
  EmulatedStream* stream = valid(handle);
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  if (event->stream == nullptr) return result(cudaSuccess);
  if (event->capture) {
    if (event->capture->first == nullptr || (stream->capture && stream->capture != event->capture))
      return result(cudaErrorStreamCaptureIsolation);
    if (!stream->capture) stream->last.clear();
    stream->capture = event->capture;
    stream->capture->streams.insert(stream);
    stream->last.insert(stream->last.end(), event->last.begin(), event->last.end());
    return result(cudaSuccess);
  }
  if (stream->capture) return result(cudaErrorStreamCaptureIsolation);
  return append(handle, EmulatedStream::Piece{{}, event->stream, event->ticket});
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  VENTRIS_LOCK();
  if (event->capture) return result(cudaErrorStreamCaptureUnsupported);
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
