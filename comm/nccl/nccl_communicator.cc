// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>

#include <cstring>
#include <exception>

#include "backend/cuda/add.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/device/context.h"
#include "backend/device/error.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "comm/nccl/nccl_link.h"
#include "comm/nccl_library.h"
#include "comm/rank_device.h"
#include "comm/tree_sum.h"

namespace ventris {
namespace {

/// A stream of the current device whose kernels get multiprocessors before those of other streams that wait
/// for some: a sum of which one rank's kernel starts late is late on all.
class Stream {
 public:
  Stream() {
    int least = 0;
    int greatest = 0;
    VENTRIS_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    VENTRIS_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event of the current device.
class Event {
 public:
  Event() { VENTRIS_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Work enqueued on `later` from now on waits for the work enqueued on `earlier` so far.
  void order(cudaStream_t earlier, cudaStream_t later) {
    VENTRIS_CUDA_CHECK(cudaEventRecord(event_, earlier));
    VENTRIS_CUDA_CHECK(cudaStreamWaitEvent(later, event_, 0));
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// The identity created by rank 0, on every rank.
ncclUniqueId agree_on_id(Communicator& control) {
  ncclUniqueId id = {};
  if (control.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  const std::string bytes = control.broadcast(std::string(id.internal, sizeof(id.internal)), 0);
  VENTRIS_CHECK(bytes.size() == sizeof(id.internal), "an identity of {} bytes came from rank 0",
                bytes.size());
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Communicator& control, Context& context)
      : control_(control),
        context_stream_(cuda::stream_of(context)),
        link_(agree_on_id(control), control, host_name()) {}
  // Pending work ends first. During an exception it may never end, as the other ranks may be gone.
  ~NcclCommunicator() override {
    if (std::uncaught_exceptions() > 0) link_.abandon();
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }

  int rank() const override { return control_.rank(); }
  int size() const override { return control_.size(); }
  std::vector<int> hosts() const override { return control_.hosts(); }
  int64_t bucket_bytes() const override { return kDeviceBucketBytes; }

  void all_reduce_sum(Tensor data) override {
    link_.check();  // after an error pending reductions stay pending
    VENTRIS_CHECK(!under_way_, "other reductions are under way");
    start_all_reduce_sum(data);
    finish_reductions();
  }

  void start_all_reduce_sum(Tensor data) override {
    VENTRIS_CHECK(data.contiguous(), "the range has rows of {} elements {} apart", data.cols, data.stride);
    const ncclDataType_t type = nccl_type(data.dtype);
    under_way_ = true;
    begin_.order(context_stream_, stream_.get());
    link_.all_reduce_sum(data.data, static_cast<size_t>(data.size()), type, stream_.get());
  }

  void start_reduce_scatter_sum(Tensor data) override {
    under_way_ = true;
    begin_.order(context_stream_, stream_.get());
    link_.reduce_scatter_sum(data, stream_.get());
  }

  void start_all_gather(const std::vector<Tensor>& ranges) override {
    under_way_ = true;
    begin_.order(context_stream_, stream_.get());
    link_.all_gather(ranges, stream_.get());
  }

  void start_tree_sum(const TreeSum& sum) override {
    under_way_ = true;
    begin_.order(context_stream_, stream_.get());
    link_.exchange(messages_of_round(sum, 0), stream_.get());
    const AddArgs args = additions_of_segment(sum);
    if (!args.steps.empty()) cuda::add_in_stream(stream_.get(), args);
    link_.exchange(messages_of_round(sum, 1), stream_.get());
  }

  void start_exchange(const TreeMessages& messages) override {
    under_way_ = true;
    begin_.order(context_stream_, stream_.get());
    link_.exchange(messages, stream_.get());
  }

  void progress() override {
    link_.check();
    link_.watch(context_stream_, control_.step());
  }
  void abandon() override { link_.abandon(); }

  void finish_reductions() override {
    link_.check();
    if (!under_way_) return;
    end_.order(stream_.get(), context_stream_);
    under_way_ = false;
  }

  void barrier() override {
    link_.check();
    control_.barrier();
  }
  std::string broadcast(const std::string& bytes, int root) override {
    link_.check();
    return control_.broadcast(bytes, root);
  }
  std::vector<std::string> all_gather(const std::string& bytes) override {
    link_.check();
    return control_.all_gather(bytes);
  }
  std::vector<std::string> gather(const std::string& bytes, int root) override {
    link_.check();
    return control_.gather(bytes, root);
  }

 private:
  Communicator& control_;
  cudaStream_t context_stream_;
  Event begin_;    // of the reductions: the gradients are ready
  Event end_;      // of the reductions: the sums are ready
  Stream stream_;  // of the reductions
  NcclLink link_;
  bool under_way_ = false;
};

int loaded_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

std::string version_text() {
  const int version = loaded_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(Communicator& control, Context& context) {
  if (context.device() == Device::kCpu || control.size() == 1) return nullptr;
  check_equal_on_all_ranks(control, "the version of NCCL", version_text());
  int device = 0;
  VENTRIS_CUDA_CHECK(cudaGetDevice(&device));
  const std::string shared = shared_device(control, device);
  if (!shared.empty()) {
    fail(ExitCode::kUnavailable,
         "{}. NCCL needs one device per rank: start fewer ranks on a host, or use --device cpu", shared);
  }
  return std::make_unique<NcclCommunicator>(control, context);
}

std::string nccl_library() {
  return fmt::format("{}.{}.{}", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
}

std::string loaded_nccl() {
  return version_text();
}

std::string nccl_unavailable_reason() {
  try {
    loaded_version();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace ventris
