#include <fcntl.h>
#include <fmt/core.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/dtype.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/nccl_channels.h"
#include "tests/emulation/random.h"

namespace {

using ventris::BF16;

constexpr int kMaxRanks = ventris::emulation::kMaxNcclRanks;
constexpr size_t kSlotBytes = size_t{64} << 10;
constexpr int kFirstWithMaxCtas = 21700;  // earlier versions ignore what they do not know

/// What the ranks of a communicator share: a file in shared memory, zero at first.
struct Shared {
  std::atomic<int> joined;                  // ranks that came
  std::atomic<int> aborted;                 // 1 + a rank that left
  std::atomic<uint64_t> arrivals;           // of all ranks at all meetings
  std::atomic<uint64_t> begun[kMaxRanks];   // sums that a rank has begun
  std::atomic<bool> captured[kMaxRanks];    // whether the sum that a rank has begun is part of a graph
  std::atomic<bool> exchanging[kMaxRanks];  // a rank waits for messages, or for room for its own
  char devices[kMaxRanks][256];
  ventris::emulation::NcclChannels channels;
  alignas(64) char slots[kMaxRanks][kSlotBytes];
};

struct Communicator {
  Shared* shared = nullptr;
  std::string name;  // of the file
  int rank = 0;
  int ranks = 0;
  uint64_t failing_sum = 0;
  uint64_t hanging_sum = 0;
  std::atomic<uint64_t> begun = 0;
  uint64_t meetings = 0;
  std::atomic<bool> aborted = false;
  std::atomic<bool> stopping = false;
  std::atomic<bool> launching = false;  // work that was asked for is not in its stream yet
  uint64_t launches = 0;
  std::thread launcher;
  std::atomic<ncclResult_t> error = ncclInProgress;
  std::thread server;  // does sums that other ranks have begun

  ~Communicator() {
    if (shared != nullptr) munmap(shared, sizeof(Shared));
  }
};

thread_local std::string last_error;

/// The messages between ncclGroupStart and ncclGroupEnd.
struct Group {
  bool open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<ventris::emulation::NcclMessage> sends;
  std::vector<ventris::emulation::NcclMessage> receives;
};
thread_local Group group;

void nap() {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
}

Shared* open_shared(const std::string& name, int flags) {
  const int fd = shm_open(name.c_str(), O_RDWR | flags, 0600);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  if ((flags & O_CREAT) == 0 || ftruncate(fd, sizeof(Shared)) == 0)
    memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

void fail_with(Communicator& c, ncclResult_t error) {
  c.error = error;
  while (!c.aborted) nap();
}

/// Ends when all ranks came to the same meeting; false if this rank gave up instead.
bool meet(Communicator& c) {
  const uint64_t all = ++c.meetings * static_cast<uint64_t>(c.ranks);
  c.shared->arrivals.fetch_add(1);
  while (c.shared->arrivals.load() < all) {
    if (c.aborted) return false;
    if (c.shared->aborted != 0) c.error = ncclRemoteError;
    nap();
  }
  return !c.aborted;
}

template <typename T>
T plus(T a, T b) {
  return a + b;
}
template <>
BF16 plus(BF16 a, BF16 b) {
  return BF16(static_cast<float>(a) + static_cast<float>(b));
}

template <typename T>
void sum(Communicator& c, const void* from, void* to, size_t count, bool captured) {
  if (c.aborted) return;
  if (c.begun + 1 == c.hanging_sum) raise(SIGSTOP);
  c.shared->captured[c.rank] = captured;
  c.shared->begun[c.rank] = ++c.begun;
  if (c.begun == c.failing_sum) return fail_with(c, ncclSystemError);
  constexpr size_t kSlot = kSlotBytes / sizeof(T);
  for (size_t begin = 0; begin < count; begin += kSlot) {
    const size_t size = std::min(kSlot, count - begin);
    std::memcpy(c.shared->slots[c.rank], static_cast<const T*>(from) + begin, size * sizeof(T));
    if (!meet(c)) return;
    for (int r = 0; r < c.ranks; ++r) {
      if (c.shared->captured[r] != captured) return fail_with(c, ncclInternalError);
    }
    T* sums = static_cast<T*>(to) + begin;
    for (size_t i = 0; i < size; ++i) {
      sums[i] = reinterpret_cast<const T*>(c.shared->slots[0])[i];
      for (int r = 1; r < c.ranks; ++r)
        sums[i] = plus(sums[i], reinterpret_cast<const T*>(c.shared->slots[r])[i]);
    }
    if (!meet(c)) return;
  }
}

void exchange(Communicator& c, const Group& messages, bool captured) {
  using ventris::emulation::NcclExchangeEnd;
  if (c.aborted) return;
  c.shared->exchanging[c.rank] = true;
  const NcclExchangeEnd end = ventris::emulation::exchange(c.shared->channels, c.rank, messages.sends,
                                                           messages.receives, captured, [&c] {
                                                             if (c.shared->aborted != 0)
                                                               c.error = ncclRemoteError;
                                                             nap();
                                                             return !c.aborted;
                                                           });
  c.shared->exchanging[c.rank] = false;
  if (end == NcclExchangeEnd::kMixedCapture) fail_with(c, ncclInternalError);
}

void serve(Communicator& c) {
  const auto wanted = [&c] {
    if (c.stopping || c.aborted) return false;
    for (int r = 0; r < c.ranks; ++r) {
      if (c.shared->begun[r] > c.begun || (r != c.rank && c.shared->exchanging[r])) return true;
    }
    return false;
  };
  while (!c.stopping) {
    if (wanted()) ventris::emulation::run_while(wanted);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// The state of a communicator whose ranks are coming.
ncclResult_t join_state(Communicator& c) {
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

void stop_server(Communicator& c) {
  c.stopping = true;
  if (c.server.joinable()) c.server.join();
  if (c.launcher.joinable()) c.launcher.join();
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Communicator> of;  // work of streams and graphs holds it too
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

ncclResult_t add_message(std::vector<ventris::emulation::NcclMessage>& messages, void* data, size_t bytes,
                         int peer, ncclComm_t comm, cudaStream_t stream) {
  const bool of_group = group.comm == nullptr || (group.comm == comm && group.stream == stream);
  if (comm == nullptr || !group.open || !of_group) return ncclInvalidUsage;
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
  Communicator& c = *comm->of;
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
  Shared* shared = open_shared(id->internal, O_CREAT | O_EXCL);
  if (shared == nullptr) {
    last_error = "no shared memory";
    return ncclSystemError;
  }
  munmap(shared, sizeof(Shared));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  ventris::emulation::NcclHooks& hooks = ventris::emulation::nccl_hooks();
  *comm = nullptr;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks || config == nullptr ||
      config->blocking != 0)
    return ncclInvalidArgument;
  const bool limited = config->maxCTAs != NCCL_CONFIG_UNDEF_INT && hooks.version >= kFirstWithMaxCtas;
  if (limited && config->maxCTAs <= 0) return ncclInvalidArgument;
  hooks.max_blocks = limited ? config->maxCTAs : 0;
  const std::string device = this_device();
  if (device.empty()) return ncclUnhandledCudaError;
  auto made = std::make_shared<Communicator>();
  made->name = id.internal;
  made->rank = rank;
  made->ranks = ranks;
  made->shared = open_shared(made->name, 0);
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
  Communicator& c = *comm->of;
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
  return enqueue(messages.comm, messages.stream,
                 [c = messages.comm->of, messages](bool captured) { exchange(*c, messages, captured); });
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  if (comm == nullptr || operation != ncclSum) return ncclInvalidArgument;
  const size_t bytes = count * size_of(type);
  if (!on_device(from, bytes) || !on_device(to, bytes)) return ncclInvalidArgument;
  return enqueue(comm, stream, [c = comm->of, from, to, count, type](bool captured) {
    type == ncclFloat32    ? sum<float>(*c, from, to, count, captured)
    : type == ncclBfloat16 ? sum<BF16>(*c, from, to, count, captured)
                           : sum<double>(*c, from, to, count, captured);
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
  Communicator& c = *comm->of;
  c.aborted = true;
  c.shared->aborted = 1 + c.rank;
  shm_unlink(c.name.c_str());
  stop_server(c);
  delete comm;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  if (comm == nullptr) return last_error.c_str();
  const Communicator& c = *comm->of;
  if (c.error == ncclRemoteError) last_error = fmt::format("rank {} has left", c.shared->aborted - 1);
  if (c.error == ncclSystemError) last_error = "a failure that a test asked for";
  if (c.error == ncclInternalError) last_error = "a sum is captured in a graph on some ranks alone";
  if (c.error == ncclInvalidUsage) last_error = "duplicate GPU detected";
  return last_error.c_str();
}
