// SPDX-License-Identifier: Apache-2.0
#include "backend/device/transfer.h"

#include <cstring>
#include <numeric>
#include <string>

#include "tests/support/operands.h"

namespace ventris::testing {
namespace {

bool on_cpu() {
  return test_device() == Device::kCpu;
}

TEST(Transfer, CopiesBothWaysInTheOrderOfTheStream) {
  Context& context = test_context();
  std::vector<int32_t> numbers(1000);
  std::iota(numbers.begin(), numbers.end(), 0);
  const ArrayOperand<int32_t> device(std::vector<int32_t>(numbers.size()));
  copy_to_device(context, device.data(), numbers.data(), numbers.size() * sizeof(int32_t));
  const std::vector<int32_t> sent = numbers;
  numbers.assign(numbers.size(), -1);  // the host may write again
  copy_to_host(context, numbers.data(), device.data(), numbers.size() * sizeof(int32_t));
  EXPECT_EQ(numbers, sent);
  copy_to_host(context, nullptr, nullptr, 0);
}

/// On the CPU a view is its own copy.
TEST(Transfer, HostCopyPacksAViewWithStrides) {
  const Buffer values = Buffer::random(5, 7, DType::kBF16, 1);
  const MatrixOperand device(values, 3);
  const HostCopy copy(test_context(), device.view());
  if (on_cpu()) {
    EXPECT_EQ(copy.view().data, device.view().data);
  } else {
    ASSERT_TRUE(copy.view().contiguous());
    EXPECT_EQ(std::memcmp(copy.view().data, values.view().data, 5 * 7 * 2), 0);
  }
  const HostCopy none(test_context(), ConstTensor{});
  EXPECT_FALSE(none.view());
}

TEST(Transfer, StagingSendsWhatTheHostWrote) {
  Context& context = test_context();
  StagingBuffer staging(context, 64);
  EXPECT_EQ(staging.host() == staging.device(), on_cpu());
  EXPECT_EQ(staging.size(), 64U);
  for (int i = 0; i < 64; ++i) EXPECT_EQ(staging.host()[i], 0);
  staging.wait_until_sent();  // nothing was sent yet
  char got[64];
  for (const char value : {'a', 'b'}) {
    std::memset(staging.host(), value, 32);
    staging.send(32);
    staging.wait_until_sent();
    if (!on_cpu()) std::memset(staging.host(), 'x', 64);
    copy_to_host(context, got, staging.device(), 64);
    EXPECT_EQ(got[0], value);
    EXPECT_EQ(got[31], value);
    EXPECT_EQ(got[32], 0);
  }
  EXPECT_THROW(staging.send(65), Error);
}

TEST(Transfer, ABufferOfTheHostReceivesInTheOrderOfTheStream) {
  Context& context = test_context();
  const ArrayOperand<char> device(std::vector<char>(16, 'd'));
  HostBuffer from(context, 16);
  HostBuffer to(context, 16);
  EXPECT_EQ(to.data()[15], 0);
  to.wait_until_done();  // nothing was copied yet
  std::memset(from.data(), 'h', 16);
  to.receive(device.data(), 16);
  from.send(device.data(), 8);
  to.wait_until_done();
  EXPECT_EQ(std::string(to.data(), 16), std::string(16, 'd'));
  to.receive(device.data(), 16);
  to.wait_until_done();
  EXPECT_EQ(std::string(to.data(), 16), "hhhhhhhhdddddddd");
  EXPECT_THROW(to.receive(device.data(), 17), Error);
  EXPECT_THROW(from.send(device.data(), 17), Error);
}

}  // namespace
}  // namespace ventris::testing
