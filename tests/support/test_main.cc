// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/files/hdf5_process.h"

/// For tests that read HDF5 files.
int main(int argc, char** argv) {
  const ventris::data::Hdf5Process reader;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
