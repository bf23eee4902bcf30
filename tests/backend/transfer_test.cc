// SPDX-License-Identifier: Apache-2.0
#include "backend/transfer.h"

#include <gtest/gtest.h>

#include "backend/device.h"
#include "backend/error.h"
#include "tests/support/compare.h"

namespace ventris {
namespace {

TEST(Transfer, OnTheCpuDeviceMemoryIsHostMemory) {
  Context context({.scratch_bytes = 256});
  int numbers[3] = {1, 2, 3};
  int copy[3] = {};
  copy_to_device(context, copy, numbers, sizeof(numbers));
  EXPECT_EQ(copy[2], 3);
  copy_to_host(context, copy, copy, sizeof(copy));
  copy_to_host(context, numbers, copy, 0);
  synchronize(context);
  const testing::Buffer buffer = testing::Buffer::random(2, 3, DType::kF32, 1);
  EXPECT_EQ(HostCopy(context, buffer.view()).view().data, buffer.view().data);
}

TEST(Transfer, StagingOnTheCpuIsOneZeroedPieceOfMemory) {
  Context context({.scratch_bytes = 256});
  StagingBuffer staging(context, 100);
  EXPECT_EQ(staging.host(), staging.device());
  EXPECT_EQ(staging.size(), 100U);
  EXPECT_EQ(staging.host()[99], 0);
  staging.host()[99] = 5;
  staging.send(100);
  staging.wait_until_sent();
  EXPECT_EQ(staging.device()[99], 5);
  EXPECT_THROW(staging.send(101), Error);
}

TEST(Transfer, ABufferOfTheHostIsCopiedAtOnceOnTheCpu) {
  Context context({.scratch_bytes = 256});
  HostBuffer buffer(context, 8);
  EXPECT_EQ(buffer.data()[7], 0);
  buffer.data()[0] = 3;
  char device[8] = {};
  buffer.send(device, 4);
  EXPECT_EQ(device[0], 3);
  device[7] = 4;
  buffer.receive(device, 8);
  EXPECT_EQ(buffer.data()[7], 4);
  buffer.wait_until_done();
  EXPECT_THROW(buffer.send(device, 9), Error);
  EXPECT_THROW(buffer.receive(device, 9), Error);
}

TEST(CudaSide, IsToldWhereItIsMissing) {
  const std::string reason = cuda_unavailable_reason();
  EXPECT_EQ(cuda_device_count() > 0 && reason.empty(), reason.empty());
  if (cuda_build() != "no") GTEST_SKIP() << "built with CUDA: " << reason;
  EXPECT_EQ(cuda_device_count(), 0);
  EXPECT_NE(reason.find("built without CUDA"), std::string::npos);
  EXPECT_THROW(cuda_device_name(0), Error);
  EXPECT_THROW(cuda_device_identity(0), Error);
  try {
    Context context({.device = Device::kCuda});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos);
  }
}

}  // namespace
}  // namespace ventris
