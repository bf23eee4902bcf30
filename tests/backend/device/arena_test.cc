// SPDX-License-Identifier: Apache-2.0
#include "backend/device/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace ventris {
namespace {

TEST(Arena, HandsOutZeroedAlignedPiecesThatDoNotOverlap) {
  Arena arena(Device::kCpu, 4096);
  EXPECT_FALSE(arena.measuring());
  auto* first = arena.allocate_array<char>(100);
  auto* second = arena.allocate_array<char>(1);
  const Tensor third = arena.allocate(3, 5, DType::kBF16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 128, 0U);
  EXPECT_EQ(second - first, 128);
  EXPECT_EQ(static_cast<char*>(third.data) - first, 256);
  EXPECT_EQ(third.rows, 3);
  EXPECT_EQ(third.cols, 5);
  EXPECT_EQ(third.stride, 5);
  EXPECT_EQ(third.dtype, DType::kBF16);
  EXPECT_EQ(arena.used(), 384U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(first[i], 0);
}

TEST(Arena, MeasuresWhatAnotherThenHolds) {
  const auto plan = [](Arena& arena) {
    const ArenaScope scope(arena);
    arena.allocate(7, 11, DType::kF32);
    {
      const ArenaScope inner(arena);
      arena.allocate(1000);
    }
    return arena.allocate(1, 1, DType::kF64);
  };
  Arena measuring;
  EXPECT_TRUE(measuring.measuring());
  EXPECT_EQ(plan(measuring).data, nullptr);
  EXPECT_EQ(measuring.used(), 0U);
  EXPECT_EQ(measuring.high_water(), 384U + 1024U);
  Arena real(Device::kCpu, measuring.high_water());
  EXPECT_NE(plan(real).data, nullptr);
  EXPECT_EQ(real.high_water(), measuring.high_water());
  EXPECT_LE(real.high_water(), real.capacity());
}

TEST(Arena, RefusesMoreThanItHolds) {
  Arena arena(Device::kCpu, 256);
  arena.allocate(129);
  EXPECT_THROW(arena.allocate(1), Error);
  EXPECT_THROW(arena.allocate(std::numeric_limits<size_t>::max()), Error);
  arena.release_to(128);
  EXPECT_NO_THROW(arena.allocate(128));
  EXPECT_THROW(arena.release_to(512), Error);
}

TEST(Arena, SaysHowMuchWasAskedForWhenTheSystemRefuses) {
  try {
    Arena arena(Device::kCpu, size_t{1} << 60);
    FAIL() << "an exbibyte was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUnavailable);
    EXPECT_NE(std::string(error.what()).find("1152921504606846976"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Arena(Device::kCpu, std::numeric_limits<size_t>::max()), Error);
}

TEST(Arena, MovesItsMemory) {
  Arena first(Device::kCpu, 1024);
  int* number = first.allocate_array<int>(1);
  *number = 42;
  Arena second = std::move(first);
  EXPECT_EQ(second.used(), 128U);
  first = Arena(Device::kCpu, 128);
  EXPECT_EQ(*number, 42);
  second = std::move(first);
  EXPECT_EQ(second.capacity(), 128U);
}

TEST(Arena, HoldsAtLeastAsMuchAsAskedForLargeSizes) {
  const size_t bytes = (size_t{2} << 20) + 1;
  Arena arena(Device::kCpu, bytes);
  char* memory = arena.allocate_array<char>(static_cast<int64_t>(bytes));
  memory[bytes - 1] = 1;
  EXPECT_GE(arena.capacity(), bytes);
}

}  // namespace
}  // namespace ventris
