// SPDX-License-Identifier: Apache-2.0
#include "backend/device/device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "backend/device/transfer.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

/// A machine that a test changes, as it was afterwards.
class CudaDevices : public ::testing::Test {
 protected:
  void TearDown() override {
    emulation::machine() = before_;
    static_cast<void>(cudaGetLastError());
  }

  const emulation::Machine before_ = emulation::machine();
};

TEST_F(CudaDevices, AreCountedNamedAndToldApart) {
  emulation::machine().devices = 2;
  EXPECT_EQ(cuda_device_count(), 2);
  EXPECT_EQ(cuda_unavailable_reason(1), "");
  EXPECT_EQ(cuda_device_name(1), "emulated, 4 multiprocessors, 4.0 GiB");
  EXPECT_NE(cuda_device_identity(0), cuda_device_identity(1));
  EXPECT_EQ(cuda_device_identity(1), cuda_device_identity(1));
  EXPECT_EQ(cuda_build(), "yes, CUDA 13.0, the emulated device");
}

TEST_F(CudaDevices, AContextMakesItsDeviceTheCurrentOne) {
  emulation::machine().devices = 2;
  const Context context({.device = Device::kCuda, .device_index = 1, .scratch_bytes = 256});
  int current = -1;
  VENTRIS_CUDA_CHECK(cudaGetDevice(&current));
  EXPECT_EQ(current, 1);
  VENTRIS_CUDA_CHECK(cudaSetDevice(0));
}

TEST_F(CudaDevices, WhatKeepsUsOutIsSaid) {
  using emulation::Machine;
  struct Case {
    void (*change)(Machine& machine);
    const char* words;
    int index = 0;
  };
  const Case cases[] = {
      {[](Machine& machine) { machine.devices = 0; }, "finds no device"},
      {[](Machine&) {}, "there is no CUDA device 3: there are 1", 3},
      {[](Machine& machine) { machine.driver = 12040; },
       "supports CUDA 12.4, but this program needs CUDA 13.0"},
      {[](Machine& machine) { machine.driver = 0; }, "no NVIDIA driver is installed"},
      {[](Machine& machine) { machine.kernel_image = false; },
       "has compute capability 9.0, but this build has kernels only for the emulated device"},
      {[](Machine& machine) { machine.major = 7; },
       "(emulated) has compute capability 7.0; 8.0 or newer is needed"},
      {[](Machine& machine) { machine.mode = cudaComputeModeProhibited; }, "\"prohibited\""},
      {[](Machine& machine) {
         machine.mode = cudaComputeModeExclusiveProcess;
         EXPECT_EQ(cuda_unavailable_reason(), "");
         machine.taken = true;
       },
       "in use by another process: it is in compute mode \"exclusive process\""}};
  for (const Case& of : cases) {
    emulation::machine() = before_;
    of.change(emulation::machine());
    const std::string reason = cuda_unavailable_reason(of.index);
    EXPECT_NE(reason.find(of.words), std::string::npos) << reason;
    try {
      Context context({.device = Device::kCuda, .device_index = of.index, .scratch_bytes = 256});
      ADD_FAILURE() << "a context was made: " << of.words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUnavailable);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  }
}

TEST(CudaArena, IsZeroedAndOnTheDevice) {
  Arena arena(Device::kCuda, 1000);
  const Tensor tensor = arena.allocate(3, 5, DType::kF32);
  EXPECT_TRUE(emulation::on_device(tensor.data, 60));
  const HostCopy copy(cuda_context(), tensor);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(copy.view().as<float>()[i], 0.0F);
}

TEST(CudaArena, SaysHowMuchWasAskedForAndForWhat) {
  try {
    const Arena arena(Device::kCuda, size_t{5} << 30, "the activations of a model");
    FAIL() << "more than there is was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    const std::string text = error.what();
    for (const char* part : {"5368709120 bytes (5120.0 MiB)", "the activations of a model",
                             "of its 4096.0 MiB are free", "--micro-batch-tokens"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "the refusal leaves nothing behind";
}

TEST(CudaContext, ScratchGrowsAndKeepsWhatGraphsMayHold) {
  Context context({.device = Device::kCuda, .scratch_bytes = 1024});
  void* before = context.scratch().allocate(128);
  context.scratch().release_to(0);
  context.reserve_scratch(100000);
  EXPECT_GE(context.scratch().capacity(), 100000U);
  EXPECT_TRUE(emulation::on_device(before, 128));
}

TEST(CudaTransfer, WhatTheHostChangesTooEarlyIsSent) {
  if (emulation::stream_order() != emulation::StreamOrder::kLate) GTEST_SKIP() << "for streams that are late";
  Context& context = cuda_context();
  StagingBuffer staging(context, 1);
  staging.host()[0] = 'a';
  staging.send(1);
  staging.host()[0] = 'b';  // against the contract: the copy reads page-locked memory when its turn comes
  char got = 0;
  copy_to_host(context, &got, staging.device(), 1);
  EXPECT_EQ(got, 'b');
}

}  // namespace
}  // namespace ventris::testing
