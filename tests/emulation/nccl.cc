// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/core.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/device/dtype.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/nccl_channels.h"
#include "tests/emulation/nccl_ranks.h"
#include "tests/emulation/random.h"

namespace {

using ventris::BF16;
using ventris::emulation::kMaxNcclRanks;
using ventris::emulation::NcclCollective;
using ventris::emulation::NcclMessage;
using ventris::emulation::NcclRank;
using ventris::emulation::NcclShared;
using ventris::emulation::open_nccl_shared;

thread_local std::string last_error;

/// The messages and collectives between ncclGroupStart and ncclGroupEnd.
struct Group {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<NcclMessage> sends;
  std::vector<NcclMessage> receives;
  std::vector<std::function<void(bool)>> collectives;
};
thread_local Group group;

/// The state of a communicator whose ranks are coming.
ncclResult_t join_state(NcclRank& c) {
  if (c.shared->joined < c.ranks) return c.shared->aborted != 0 ? ncclRemoteError : ncclInProgress;
  shm_unlink(c.name.c_str());
  for (int second = 1; second < c.ranks; ++second) {
    for (int first = 0; first < second; ++first) {
      if (std::strcmp(c.shared->devices[first], c.shared->devices[second]) == 0) return ncclInvalidUsage;
    }
  }
  c.server = std::thread([&c] { serve(c); });
  return ncclSuccess;
}

std::string this_device() {
  int index = 0;
  cudaDeviceProp properties;
  if (cudaGetDevice(&index) != cudaSuccess || cudaGetDeviceProperties(&properties, index) != cudaSuccess)
    return "";
  std::array<char, 128> host{};
  gethostname(host.data(), host.size() - 1);
  const char* host_id = std::getenv("NCCL_HOSTID");
  std::string identity = std::string(host_id == nullptr ? host.data() : host_id).substr(0, 128) + " ";
  for (const char byte : properties.uuid.bytes)
    identity += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return identity;
}

/// N where the environment variable is "RANK:N", of this rank; else 0.
uint64_t wished_sum(const char* variable, int rank) {
  int whose = 0;
  unsigned long sum = 0;
  const char* wish = std::getenv(variable);
  return wish != nullptr && std::sscanf(wish, "%d:%lu", &whose, &sum) == 2 && whose == rank ? sum : 0;
}

/// The value of an environment variable, or what holds without it.
int number_of(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

void stop_server(NcclRank& c) {
  c.stopping = true;
  if (c.server.joinable()) c.server.join();
  if (c.launcher.joinable()) c.launcher.join();
}

}  // namespace

struct ncclComm {
  std::shared_ptr<NcclRank> of;  // work of streams and graphs holds it too
};

namespace {

size_t size_of(ncclDataType_t type) {
  return type == ncclFloat32 ? sizeof(float) : type == ncclBfloat16 ? sizeof(BF16) : sizeof(double);
}

bool on_device(const void* data, size_t bytes) {
  if (ventris::emulation::on_device(data, bytes)) return true;
  last_error = "the numbers are not in device memory";
  return false;
}

bool of_group(ncclComm_t comm, cudaStream_t stream) {
  return group.comm == nullptr || (group.comm == comm && group.stream == stream);
}

ncclResult_t add_message(std::vector<NcclMessage>& messages, void* data, size_t bytes, int peer,
                         ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || !group.open || !of_group(comm, stream)) return ncclInvalidUsage;
  if (peer < 0 || peer >= comm->of->ranks || peer == comm->of->rank) return ncclInvalidArgument;
  if (!on_device(data, bytes)) return ncclInvalidArgument;
  group.comm = comm;
  group.stream = stream;
  messages.push_back({peer, static_cast<char*>(data), bytes});
  return ncclSuccess;
}

/// Makes work(captured) work of the stream, a while later: as the library, it launches from a thread of its
/// own.
ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, std::function<void(bool)> work) {
  NcclRank& c = *comm->of;
  if (c.error != ncclSuccess) return c.error;
  if (c.launching) {
    last_error = "the sum before is not launched yet";
    return ncclInvalidUsage;
  }
  if (c.launcher.joinable()) c.launcher.join();
  c.launching = true;
  ventris::emulation::Random random(ventris::emulation::seed() + c.launches++);
  const std::chrono::microseconds delay(100 + random.below(400));
  c.launcher = std::thread([of = comm->of, stream, work = std::move(work), delay] {
    std::this_thread::sleep_for(delay);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaError_t status = cudaStreamIsCapturing(stream, &capture);
    const bool captured = capture != cudaStreamCaptureStatusNone;
    if (status == cudaSuccess)
      status = ventris::emulation::enqueue(
          stream, "NCCL",
          [work, captured] {
            ventris::emulation::nccl_hooks().priority = ventris::emulation::running_priority();
            work(captured);
          },
          /*meets_ranks=*/true);
    if (status != cudaSuccess) of->error = ncclUnhandledCudaError;
    of->launching = false;
  });
  return ncclInProgress;
}

/// The same, at the end of the group if one is open.
ncclResult_t enqueue_in_group(ncclComm_t comm, cudaStream_t stream, std::function<void(bool)> work) {
  if (!group.open) return enqueue(comm, stream, std::move(work));
  if (!of_group(comm, stream)) return ncclInvalidUsage;
  group.comm = comm;
  group.stream = stream;
  group.collectives.push_back(std::move(work));
  return ncclSuccess;
}

}  // namespace

namespace ventris::emulation {

NcclHooks& nccl_hooks() {
  static NcclHooks hooks = [] {
    NcclHooks first;
    if (const char* version = std::getenv("VENTRIS_EMULATED_NCCL_VERSION"))
      first.version = std::atoi(version);
    return first;
  }();
  return hooks;
}

}  // namespace ventris::emulation

ncclResult_t ncclGetVersion(int* version) {
  *version = ventris::emulation::nccl_hooks().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  *id = {};
  std::snprintf(id->internal, sizeof(id->internal), "/ventris-nccl-%d-%d", getpid(), made++);
  NcclShared* shared = open_nccl_shared(id->internal, O_CREAT | O_EXCL);
  if (shared == nullptr) {
    last_error = "no shared memory";
    return ncclSystemError;
  }
  munmap(shared, sizeof(NcclShared));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  ventris::emulation::NcclHooks& hooks = ventris::emulation::nccl_hooks();
  *comm = nullptr;
  if (ranks < 1 || ranks > kMaxNcclRanks || rank < 0 || rank >= ranks || config == nullptr ||
      number_of("NCCL_COMM_BLOCKING", config->blocking) != 0)
    return ncclInvalidArgument;
  hooks.registers_graphs = number_of("NCCL_GRAPH_REGISTER", 1) != 0;
  const std::string device = this_device();
  if (device.empty()) return ncclUnhandledCudaError;
  auto made = std::make_shared<NcclRank>();
  made->name = id.internal;
  made->rank = rank;
  made->ranks = ranks;
  made->shared = open_nccl_shared(made->name, 0);
  if (made->shared == nullptr) return ncclSystemError;
  made->failing_sum = hooks.failing_sum;
  if (const uint64_t wish = wished_sum("VENTRIS_EMULATED_NCCL_ERROR", rank)) made->failing_sum = wish;
  made->hanging_sum = wished_sum("VENTRIS_EMULATED_NCCL_HANG", rank);
  std::memcpy(made->shared->devices[rank], device.c_str(), device.size() + 1);
  made->shared->joined.fetch_add(1);
  *comm = new ncclComm{made};
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  NcclRank& c = *comm->of;
  if (c.error == ncclInProgress) c.error = join_state(c);
  if (c.error == ncclSuccess && c.shared->aborted != 0) c.error = ncclRemoteError;
  *error = c.launching ? ncclInProgress : c.error.load();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (group.open) return ncclInvalidUsage;
  group = {};
  group.open = true;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message(group.sends, const_cast<void*>(from), count * size_of(type), peer, comm, stream);
}

ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_message(group.receives, to, count * size_of(type), peer, comm, stream);
}

ncclResult_t ncclGroupEnd() {
  if (!group.open) return ncclInvalidUsage;
  const Group messages = std::exchange(group, {});
  if (messages.comm == nullptr) return ncclSuccess;
  return enqueue(messages.comm, messages.stream, [c = messages.comm->of, messages](bool captured) {
    if (!messages.sends.empty() || !messages.receives.empty())
      exchange(*c, messages.sends, messages.receives, captured);
    for (const auto& collective : messages.collectives) collective(captured);
  });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || operation != ncclSum) return ncclInvalidArgument;
  const size_t bytes = count * size_of(type);
  if (!on_device(from, bytes) || !on_device(to, bytes)) return ncclInvalidArgument;
  return enqueue_in_group(comm, stream, [c = comm->of, from, to, count, type](bool captured) {
    if (begin_collective(*c, {NcclCollective::kAllReduce, count, type, captured}))
      sum(*c, from, to, count, type);
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count_of_rank, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || operation != ncclSum) return ncclInvalidArgument;
  const size_t bytes = count_of_rank * size_of(type);
  if (!on_device(from, static_cast<size_t>(comm->of->ranks) * bytes) || !on_device(to, bytes))
    return ncclInvalidArgument;
  return enqueue_in_group(comm, stream, [c = comm->of, from, to, count_of_rank, type, bytes](bool captured) {
    if (begin_collective(*c, {NcclCollective::kReduceScatter, count_of_rank, type, captured}))
      reduce_scatter(*c, static_cast<const char*>(from), to, count_of_rank, type, bytes);
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count_of_rank, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr) return ncclInvalidArgument;
  const size_t bytes = count_of_rank * size_of(type);
  if (!on_device(from, bytes) || !on_device(to, static_cast<size_t>(comm->of->ranks) * bytes))
    return ncclInvalidArgument;
  return enqueue_in_group(comm, stream, [c = comm->of, from, to, count_of_rank, type, bytes](bool captured) {
    if (begin_collective(*c, {NcclCollective::kAllGather, count_of_rank, type, captured}))
      all_gather(*c, static_cast<const char*>(from), static_cast<char*>(to), bytes);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  stop_server(*comm->of);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  stop_server(*comm->of);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NcclRank& c = *comm->of;
  c.aborted = true;
  c.shared->aborted = 1 + c.rank;
  shm_unlink(c.name.c_str());
  stop_server(c);
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  static const std::map<ncclResult_t, const char*> texts = {
      {ncclSuccess, "no error"},
      {ncclUnhandledCudaError, "unhandled cuda error"},
      {ncclSystemError, "unhandled system error"},
      {ncclInternalError, "internal error"},
      {ncclInvalidArgument, "invalid argument"},
      {ncclInvalidUsage, "invalid usage"},
      {ncclRemoteError, "remote process exited or there was a network error"},
      {ncclInProgress, "NCCL operation in progress"},
  };
  const auto found = texts.find(result);
  return found == texts.end() ? "unknown result code" : found->second;
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) return last_error.c_str();
  const NcclRank& c = *comm->of;
  if (c.error == ncclRemoteError) last_error = fmt::format("rank {} has left", c.shared->aborted - 1);
  if (c.error == ncclSystemError) last_error = "a failure that a test asked for";
  if (c.error == ncclInternalError) last_error = "a sum is captured in a graph on some ranks alone";
  if (c.error == ncclInvalidArgument) last_error = "the ranks ask for different collectives";
  if (c.error == ncclInvalidUsage) last_error = "duplicate GPU detected";
  return last_error.c_str();
}
