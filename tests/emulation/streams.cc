#include "tests/emulation/streams.h"

#include <algorithm>
#include <cstdio>

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

HostWait::HostWait() : had_work_(has_work()) {}
HostWait::~HostWait() {
  if (had_work_ && !has_work()) ++state().idle_waits;
}

EmulatedStream* valid(cudaStream_t stream) {
  if (stream == nullptr) return &state().default_stream;
  return state().streams.count(stream) != 0 ? stream : nullptr;
}

cudaError_t append(cudaStream_t handle, std::function<void()> task) {
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

cudaError_t append(cudaStream_t stream, const char* name, std::function<void()> task) {
  const cudaError_t status = append(stream, std::move(task));
  if (status == cudaSuccess) ++state().other_launches[name];
  return status;
}

}  // namespace ventris::emulation

using ventris::emulation::append;
using ventris::emulation::execute_all;
using ventris::emulation::execute_until;
using ventris::emulation::HostWait;
using ventris::emulation::result;
using ventris::emulation::state;
using ventris::emulation::valid;

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
      append(handle, [time = event->time] { *time = std::chrono::steady_clock::now(); });
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
  return append(handle, [other = event->stream, ticket = event->ticket] {
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
  return append(stream, "graph", [nodes = exec->nodes] {
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
