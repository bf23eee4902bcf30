// SPDX-License-Identifier: Apache-2.0
// Phases on the emulated device: its events have the times of its own clock.
#include "backend/profile.h"

#include <gtest/gtest.h>

#include <nvtx3/nvToolsExt.h>

#include "backend/cast.h"
#include "backend/transfer.h"
#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

TEST(CudaProfile, PhasesHaveTheTimesOfTheDevice) {
  Context& context = cuda_context();
  Arena arena(Device::kCuda, 1 << 16);
  const Tensor tensor = arena.allocate(64, 64, DType::kF32);
  Profile& profile = context.profile();
  profile.clear();
  for (int step = 0; step < 2; ++step) {
    profile.begin_step();
    for (size_t layer = 0; layer < 3; ++layer) {
      const ProfileRange range(context, "zeroing");
      const ProfileLayer name(context, "layer", layer);
      fill_zero(context, tensor);
    }
    { const ProfileRange range(context, "nothing"); }
    profile.end_step();
  }
  const std::vector<Profile::Phase> phases = profile.phases();  // nobody waited for the device before
  ASSERT_EQ(phases.size(), 2U);
  EXPECT_EQ(phases[0].name, "zeroing");
  EXPECT_EQ(phases[0].ranges, 6);
  EXPECT_GT(phases[0].seconds, 0.0);
  EXPECT_EQ(phases[1].ranges, 2);
  EXPECT_GE(profile.step_seconds(), phases[0].seconds + phases[1].seconds - 1e-6);
  EXPECT_EQ(profile.steps(), 2);
  profile.clear();
}

TEST(CudaProfile, StepsPhasesAndLayersAreRangesOfNvtx) {
  Context& context = cuda_context();
  context.profile().clear();
  emulation::all_ranges.clear();
  {
    const ProfileRange range(context, "outside a step");
    const ProfileLayer layer(context, "layer", 0);
  }
  EXPECT_TRUE(emulation::all_ranges.empty());
  context.profile().begin_step();
  {
    const ProfileRange range(context, "forward");
    for (size_t i = 0; i < 2; ++i) const ProfileLayer layer(context, "encoder layer", i);
  }
  { const ProfileRange range(context, "backward"); }
  context.profile().end_step();
  EXPECT_TRUE(emulation::open_ranges.empty());
  const std::set<std::string> expected = {"step", "step/forward", "step/forward/encoder layer 0",
                                          "step/forward/encoder layer 1", "step/backward"};
  EXPECT_EQ(emulation::all_ranges, expected);
  context.profile().clear();
}

}  // namespace
}  // namespace ventris::testing
