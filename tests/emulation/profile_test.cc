// SPDX-License-Identifier: Apache-2.0
// Phases on the emulated device.
#include "backend/device/profile.h"

#include <gtest/gtest.h>

#include <nvtx3/nvToolsExt.h>

#include "tests/emulation/device_buffer.h"

namespace ventris::testing {
namespace {

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
