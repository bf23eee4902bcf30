// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/launch.cuh"
#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/device/transfer.h"
#include "comm/communicator.h"
#include "tests/comm/rank_test.h"
#include "tests/emulation/controls.h"
#include "tests/support/tolerance.h"

namespace ventris::testing {

/// Every rank has a device of its own, all of them in this host.
class DeviceRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world().size() == 1) GTEST_SKIP() << "one rank sums nothing";
    emulation::machine().devices = world().size();
    context_ = std::make_unique<Context>(
        ContextOptions{.device = Device::kCuda, .device_index = world().rank(), .scratch_bytes = 1 << 20});
    communicator_ = make_device_communicator(world(), *context_);
    ASSERT_NE(communicator_, nullptr);
    world().barrier();  // what a test does to its communicator meets no rank that still makes its own
  }
  void TearDown() override {
    emulation::nccl_hooks() = {};
    emulation::clear_fault();
    world().barrier();
  }

  Communicator& communicator() { return *communicator_; }
  Context& context() { return *context_; }
  cudaStream_t stream() { return cuda::stream_of(*context_); }

  std::unique_ptr<Context> context_;
  std::unique_ptr<Communicator> communicator_;
};

/// A row of device memory, filled by work of the context's stream.
template <typename T>
class DeviceRow {
 public:
  DeviceRow(Context& context, const std::vector<T>& values)
      : context_(context), count_(static_cast<int64_t>(values.size())) {
    VENTRIS_CUDA_CHECK(cudaMalloc(&data_, bytes()));
    VENTRIS_CUDA_CHECK(cudaMallocHost(&host_, bytes()));
    fill(values);
  }
  ~DeviceRow() {
    static_cast<void>(cudaFree(data_));
    static_cast<void>(cudaFreeHost(host_));
  }
  DeviceRow(const DeviceRow&) = delete;
  DeviceRow& operator=(const DeviceRow&) = delete;

  /// The copy to the device is only enqueued.
  void fill(const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), host_);
    enqueue_fill();
  }
  void enqueue_fill() {
    VENTRIS_CUDA_CHECK(
        cudaMemcpyAsync(data_, host_, bytes(), cudaMemcpyHostToDevice, cuda::stream_of(context_)));
  }
  Tensor view() { return {data_, 1, count_, count_, sizeof(T) == 4 ? DType::kF32 : DType::kF64}; }
  std::vector<T> get() {
    std::vector<T> values(static_cast<size_t>(count_));
    copy_to_host(context_, values.data(), data_, bytes());
    return values;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(count_) * sizeof(T); }
  Context& context_;
  int64_t count_;
  T* data_ = nullptr;
  T* host_ = nullptr;
};

/// Numbers of this rank that are no round ones.
template <typename T>
std::vector<T> numbers(size_t count, int seed = 0) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = T(1) / static_cast<T>(i % 1009 + 3 + static_cast<size_t>(7 * world().rank() + seed));
  return values;
}

/// The oracle: the plain sum of MPI.
template <typename T>
std::vector<T> sums_by_mpi(std::vector<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  world().all_reduce_sum({values.data(), 1, count, count, sizeof(T) == 4 ? DType::kF32 : DType::kF64});
  return values;
}

template <typename T>
void expect_sums(const std::vector<T>& got, const std::vector<T>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  const auto tolerance = tolerance_of(sizeof(T) == 4 ? DType::kF32 : DType::kF64);
  for (size_t i = 0; i < got.size(); ++i) {
    if (!close(got[i], expected[i], tolerance)) FAIL() << i << ": " << got[i] << " " << expected[i];
  }
}

/// Expects an Error of this code from `call` on every rank, that says all of `parts`.
template <typename Call>
void expect_error(ExitCode code, const std::vector<std::string>& parts, const Call& call) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << ": " << error.what();
  }
}

}  // namespace ventris::testing
