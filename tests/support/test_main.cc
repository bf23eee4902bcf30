// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "data/io/hdf5_child.h"

/// For tests that read HDF5 files.
int main(int argc, char** argv) {
  ventris::data::list_hdf5_if_asked(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
