// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_link.h"

#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "backend/cuda/check.cuh"
#include "backend/device/error.h"
#include "comm/communicator.h"

namespace ventris {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPollInterval{100};
constexpr int kPollsWithoutSleep = 1000;
constexpr std::chrono::seconds kGrace{20};  // for the host to detect a failure
// The first rank gives up on late ranks first and reports it; the others see its leaving as a failure.
constexpr double kSecondsAfterFirstRank = 0.5;
// The rank that detected the cause of a failure reports it; those that see another rank leave do not know it.
constexpr std::chrono::milliseconds kPatienceForFirstRank{1000};
constexpr std::chrono::milliseconds kPatienceForCause{2500};

bool bad(ncclResult_t status) {
  return status != ncclSuccess && status != ncclInProgress;
}

size_t count_of(const Tensor& data) {
  return static_cast<size_t>(data.size());
}

}  // namespace

void check_nccl(ncclResult_t status, const char* call) {
  if (status == ncclSuccess) return;
  fail(ExitCode::kUnavailable, "{} failed: {}. {}. NCCL_DEBUG=WARN makes NCCL report more", call,
       ncclGetErrorString(status), ncclGetLastError(nullptr));
}

ncclDataType_t nccl_type(DType dtype) {
  return dtype == DType::kF32 ? ncclFloat32 : dtype == DType::kBF16 ? ncclBfloat16 : ncclFloat64;
}

NcclLink::NcclLink(const ncclUniqueId& id, Communicator& control, const std::string& host)
    : control_(control),
      rank_(control.rank()),
      ranks_(control.size()),
      host_(host),
      wait_limit_(control.wait_limit()) {
  VENTRIS_CUDA_CHECK(cudaGetDevice(&device_));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // unless the environment says otherwise: comm/nccl_library.h
  const ncclResult_t status = ncclCommInitRankConfig(&comm_, ranks_, id, rank_, &config);
  settle(status, "ncclCommInitRankConfig");
  for (Mark& mark : marks_) VENTRIS_CUDA_CHECK(cudaEventCreateWithFlags(&mark.event, cudaEventDisableTiming));
  watchdog_ = std::thread([this] { run_watchdog(); });
}

NcclLink::~NcclLink() {
  // Finalizing waits for all ranks; if one leaves with an exception, the job is about to be aborted.
  if (std::uncaught_exceptions() > 0) abandon();
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  state_changed_.notify_all();
  watchdog_.join();
  for (const Mark& mark : marks_) static_cast<void>(cudaEventDestroy(mark.event));
  if (comm_ == nullptr) return;
  ncclResult_t status = ncclCommFinalize(comm_);
  const Clock::time_point begin = Clock::now();
  while (status == ncclInProgress && Clock::now() - begin < kGrace) {
    sched_yield();
    if (ncclCommGetAsyncError(comm_, &status) != ncclSuccess) status = ncclInternalError;
  }
  static_cast<void>(status == ncclSuccess ? ncclCommDestroy(comm_) : ncclCommAbort(comm_));
}

template <typename Start>
void NcclLink::enqueue(const char* call, size_t count, const Start& start) {
  ncclResult_t status = ncclSuccess;
  {
    const std::lock_guard lock(mutex_);
    check_locked();
    ++started_;
    last_count_ = count;
    status = start();
  }
  settle(status, call);
}

void NcclLink::all_reduce_sum(void* data, size_t count, ncclDataType_t type, cudaStream_t stream) {
  enqueue("ncclAllReduce", count,
          [&] { return ncclAllReduce(data, data, count, type, ncclSum, comm_, stream); });
}

Tensor NcclLink::own_segment(const Tensor& data) const {
  VENTRIS_CHECK(data.rows == 1 && data.cols % ranks_ == 0,
                "{} x {} elements are not equal segments of {} ranks", data.rows, data.cols, ranks_);
  const int64_t count = data.size() / ranks_;
  return data.col_range(rank_ * count, count);
}

void NcclLink::reduce_scatter_sum(const Tensor& data, cudaStream_t stream) {
  const Tensor own = own_segment(data);
  enqueue("ncclReduceScatter", count_of(own), [&] {
    return ncclReduceScatter(data.data, own.data, count_of(own), nccl_type(own.dtype), ncclSum, comm_,
                             stream);
  });
}

void NcclLink::all_gather(const std::vector<Tensor>& ranges, cudaStream_t stream) {
  if (ranges.empty()) return;
  enqueue("ncclAllGather", count_of(own_segment(ranges[0])), [&] {
    ncclResult_t status = ncclGroupStart();
    for (const Tensor& data : ranges) {
      if (bad(status)) break;
      const Tensor own = own_segment(data);
      status = ncclAllGather(own.data, data.data, count_of(own), nccl_type(own.dtype), comm_, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return bad(status) ? status : end;
  });
}

void NcclLink::exchange(const TreeMessages& messages, cudaStream_t stream) {
  if (messages.sends.empty() && messages.receives.empty()) return;
  const Tensor& first = messages.sends.empty() ? messages.receives[0].data : messages.sends[0].data;
  enqueue("ncclGroupEnd", count_of(first), [&] {
    ncclResult_t status = ncclGroupStart();
    for (const auto& [peer, data] : messages.sends) {
      if (bad(status)) break;
      status = ncclSend(data.data, count_of(data), nccl_type(data.dtype), peer, comm_, stream);
    }
    for (const auto& [peer, data] : messages.receives) {
      if (bad(status)) break;
      status = ncclRecv(data.data, count_of(data), nccl_type(data.dtype), peer, comm_, stream);
    }
    const ncclResult_t end = ncclGroupEnd();
    return bad(status) ? status : end;
  });
}

void NcclLink::watch(cudaStream_t stream, int64_t step) {
  if (wait_limit_ == 0.0) return;
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  VENTRIS_CUDA_CHECK(cudaStreamIsCapturing(stream, &capture));
  if (capture != cudaStreamCaptureStatusNone) return;
  Mark* mark = nullptr;
  {
    const std::lock_guard lock(mutex_);
    mark = &marks_[marks_[watched_].pending ? 1 - watched_ : watched_];
    mark->pending = false;  // the thread does not query an event that is being recorded
  }
  VENTRIS_CUDA_CHECK(cudaEventRecord(mark->event, stream));
  const std::lock_guard lock(mutex_);
  mark->pending = true;
  mark->step = step;
  if (mark == &marks_[watched_]) since_.restart();
}

void NcclLink::abandon() {
  const std::lock_guard lock(mutex_);
  give_up_locked(fmt::format("the sums over the ranks were abandoned on rank {}", rank_));
  reported_ = true;
}

void NcclLink::check() {
  const std::lock_guard lock(mutex_);
  poll_locked();
  check_locked();
}

/// Polls until the call that returned `status` is complete. Throws if it fails or times out.
void NcclLink::settle(ncclResult_t status, const char* call) {
  WaitClock waiting;
  int polls = 0;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      check_locked();
      if (status == ncclInProgress) {
        const ncclResult_t asked = ncclCommGetAsyncError(comm_, &status);
        if (bad(asked)) status = asked;
      }
      if (bad(status)) give_up_locked(describe_locked(call, status), status == ncclRemoteError);
      if (status == ncclInProgress && wait_limit_ > 0.0 && waiting.seconds() > wait_limit_)
        give_up_late_locked(call, 0);
      check_locked();
    }
    if (status == ncclSuccess) return;
    if (++polls < kPollsWithoutSleep) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void NcclLink::run_watchdog() {
  // A failure to set the device is reported by the calls that follow.
  static_cast<void>(cudaSetDevice(device_));
  std::unique_lock lock(mutex_);
  while (!state_changed_.wait_for(lock, kPollInterval, [this] { return stopping_; })) {
    poll_locked();
    poll_marks_locked();
    if (failure_.empty()) continue;
    state_changed_.wait_for(lock, kGrace, [this] { return stopping_ || reported_; });
    // A host that has detected the failure first frees graphs and memory, which waits for the device.
    if (stopping_ || (reported_ && state_changed_.wait_for(lock, kGrace, [this] { return stopping_; })))
      return;
    std::fprintf(stderr, "[rank %d on %s] ventris: error: %s\n", rank_, host_.c_str(), failure_.c_str());
    std::fflush(stderr);
    std::_Exit(static_cast<int>(ExitCode::kUnavailable));
  }
}

void NcclLink::poll_locked() {
  if (comm_ == nullptr) return;
  ncclResult_t status = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm_, &status);
  if (bad(asked)) status = asked;
  if (bad(status)) give_up_locked(describe_locked("ncclAllReduce", status), status == ncclRemoteError);
}

void NcclLink::poll_marks_locked() {
  if (comm_ == nullptr) return;
  Mark& watched = marks_[watched_];
  // The host detects an error of the device in its next call of CUDA.
  if (watched.pending && cudaEventQuery(watched.event) != cudaErrorNotReady) watched.pending = false;
  if (!watched.pending) {
    if (!marks_[1 - watched_].pending) return;
    watched_ = 1 - watched_;
    since_.restart();
    return;
  }
  if (since_.seconds() > wait_limit_ + (rank_ == 0 ? 0.0 : kSecondsAfterFirstRank))
    give_up_late_locked("the sum of gradients", watched.step);
}

void NcclLink::give_up_late_locked(const std::string& collective, int64_t step) {
  if (failure_.empty()) late_ = LateSum{.collective = collective, .step = step};
  give_up_locked(late_text_locked("other ranks, some of which did not take part"));
}

/// Requires a late sum.
std::string NcclLink::late_text_locked(const std::string& whom) const {
  return late_message(rank_, ranks_, wait_limit_, late_->collective + " between the CUDA devices",
                      late_->step, whom);
}

void NcclLink::give_up_locked(const std::string& what, bool remote) {
  if (failure_.empty()) {
    failure_ = what;
    remote_ = remote;
  }
  if (comm_ == nullptr) return;
  // On a separate thread: the kernels end immediately, but the call may wait for graphs that hold our sums,
  // which the host frees only after it has detected the failure.
  std::thread([comm = std::exchange(comm_, nullptr)] { static_cast<void>(ncclCommAbort(comm)); }).detach();
}

void NcclLink::check_locked() {
  if (failure_.empty()) return;
  if (!reported_) {
    reported_ = true;
    state_changed_.notify_all();
    call_roll_locked();
  }
  throw LateRanks(failure_, patience_);
}

/// Of the ranks that gave up, the first reports it; then one that knows what it waited for, and last one that
/// only saw another leave. The thread waits for the lock meanwhile.
void NcclLink::call_roll_locked() {
  const auto [first, absent] = control_.call_roll();
  if (late_) {
    failure_ = late_text_locked(
        absent.empty() ? "other ranks, which all answer: a device, or the network between devices, may hang"
                       : absent);
    patience_ = first ? std::chrono::milliseconds(0) : kPatienceForFirstRank;
    return;
  }
  if (!absent.empty()) failure_ += ". Look first at " + absent;
  if (remote_) {
    patience_ = kPatienceForCause;
  } else if (rank_ > 0) {
    patience_ = kPatienceForFirstRank;
  }
}

std::string NcclLink::describe_locked(const char* call, ncclResult_t status) const {
  const char* detail = ncclGetLastError(comm_);
  std::string text = detail == nullptr || *detail == '\0' ? "no details" : detail;
  while (text.ends_with('\n')) text.pop_back();
  const std::string sums =
      started_ == 0
          ? ""
          : fmt::format(", in a sum of gradients over the ranks (the last had {} numbers)", last_count_);
  return fmt::format(
      "{} failed on rank {} of {}, CUDA device {}{}: {} ({}). Another rank, a device or the network "
      "may have failed: find the first message of the job, or start again with NCCL_DEBUG=WARN. "
      "Saved checkpoints are intact, and the same command resumes from the newest",
      call, rank_, ranks_, device_, sums, ncclGetErrorString(status), text);
}

}  // namespace ventris
