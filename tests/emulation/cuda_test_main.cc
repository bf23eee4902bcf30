// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "backend/device/device.h"
#include "data/io/hdf5_child.h"

/// Runs the tests on the first CUDA device, and skips them all where there is none that works.
int main(int argc, char** argv) {
  ventris::data::list_hdf5_if_asked(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  const std::string reason = ventris::cuda_unavailable_reason();
  if (!reason.empty()) {
    std::fprintf(stderr, "skipped: no CUDA device can be used: %s\n", reason.c_str());
    return 77;
  }
  std::fprintf(stderr, "device: %s\n", ventris::cuda_device_name(0).c_str());
  return RUN_ALL_TESTS();
}
