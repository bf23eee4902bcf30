// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ventris {
namespace {

std::string value_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "none" : text;
}

TEST(NcclVariables, CallsNeverBlockAndBuffersAreRegisteredOnlyOnRequest) {
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);
  ::unsetenv("NCCL_GRAPH_REGISTER");
  set_nccl_variables();
  EXPECT_EQ(value_of("NCCL_COMM_BLOCKING"), "0");
  EXPECT_EQ(value_of("NCCL_GRAPH_REGISTER"), "0");
  ::setenv("NCCL_GRAPH_REGISTER", "1", 1);
  set_nccl_variables();
  EXPECT_EQ(value_of("NCCL_GRAPH_REGISTER"), "1");
  ::setenv("NCCL_GRAPH_REGISTER", "0", 1);  // for the tests that follow
}

}  // namespace
}  // namespace ventris
