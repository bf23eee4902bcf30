// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "tests/emulation/controls.h"
#include "tests/emulation/random.h"
#include "tests/emulation/runtime.h"
#include "tests/emulation/streams.h"

using ventris::emulation::append;
using ventris::emulation::next_random;
using ventris::emulation::Random;
using ventris::emulation::result;
using ventris::emulation::state;
using ventris::emulation::valid;

namespace {

/// Whether `last` and what they come after are all nodes.
bool joined(const EmulatedGraph& graph, std::vector<size_t> last) {
  std::vector<bool> found(graph.nodes.size());
  while (!last.empty()) {
    const size_t node = last.back();
    last.pop_back();
    if (found[node]) continue;
    found[node] = true;
    last.insert(last.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::all_of(found.begin(), found.end(), [](bool one) { return one; });
}

/// Does the work of the nodes in a random order that their edges allow: at times any that is ready, at times
/// all that is ready of one of the streams that were captured before any of another.
void replay(const EmulatedGraph& graph, Random random) {
  std::vector<std::vector<size_t>> later(graph.nodes.size());
  std::vector<size_t> missing(graph.nodes.size());
  std::map<const EmulatedStream*, uint64_t> ranks;
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const EmulatedGraph::Node& node = graph.nodes[i];
    for (const size_t before : node.after) later[before].push_back(i);
    missing[i] = node.after.size();
    if (ranks.count(node.stream) == 0) ranks[node.stream] = random.next();
    if (missing[i] == 0) ready.push_back(i);
  }
  const bool by_rank = !random.one_in(3);
  while (!ready.empty() && state().fault == cudaSuccess) {
    auto next = ready.begin() + static_cast<std::ptrdiff_t>(random.below(ready.size()));
    if (by_rank && !random.one_in(16)) {
      next = std::min_element(ready.begin(), ready.end(), [&](size_t a, size_t b) {
        return ranks[graph.nodes[a].stream] < ranks[graph.nodes[b].stream];
      });
    }
    const size_t node = *next;
    ready.erase(next);
    if (graph.node_priorities) state().priority = graph.nodes[node].priority;
    ventris::emulation::pass_time_of_work();
    graph.nodes[node].work();
    for (const size_t after : later[node]) {
      if (--missing[after] == 0) ready.push_back(after);
    }
  }
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  VENTRIS_LOCK();
  if (stream == nullptr || valid(stream) == nullptr || stream->capture) return result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<EmulatedCapture>();
  stream->capture->first = stream;
  stream->capture->streams.insert(stream);
  stream->last.clear();
  ++state().captures;
  return result(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  VENTRIS_LOCK();
  *graph = nullptr;
  if (stream == nullptr || !stream->capture || stream->capture->first != stream)
    return result(cudaErrorStreamCaptureUnmatched);
  const std::shared_ptr<EmulatedCapture> ended = stream->capture;
  for (EmulatedStream* one : ended->streams) one->capture.reset();
  ended->first = nullptr;
  --state().captures;
  if (!joined(ended->graph, stream->last)) return result(cudaErrorStreamCaptureUnjoined);
  *graph = new EmulatedGraph(std::move(ended->graph));
  return result(cudaSuccess);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  VENTRIS_LOCK();
  *status =
      stream != nullptr && stream->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  if ((flags & ~cudaGraphInstantiateFlagUseNodePriority) != 0) return result(cudaErrorInvalidValue);
  *exec = new EmulatedGraph(*graph);
  (*exec)->node_priorities = flags != 0;
  return result(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  VENTRIS_LOCK();
  const bool meets_ranks =
      std::any_of(exec->nodes.begin(), exec->nodes.end(), [](const auto& node) { return node.meets_ranks; });
  for (EmulatedEvent* event : exec->records) {
    event->stream = valid(stream);
    event->ticket = event->stream->enqueued + 1;
  }
  return append(
      stream, "graph",
      [graph = std::make_shared<const EmulatedGraph>(*exec)] { replay(*graph, next_random()); }, meets_ranks);
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return result(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return result(cudaSuccess);
}
