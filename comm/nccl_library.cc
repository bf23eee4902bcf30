// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl_library.h"

#include <cstdlib>

#include "backend/device/error.h"

namespace ventris {

void set_nccl_variables() {
  const int blocking = ::setenv("NCCL_COMM_BLOCKING", "0", /*overwrite=*/1);
  const int registers = ::setenv("NCCL_GRAPH_REGISTER", "0", /*overwrite=*/0);
  VENTRIS_CHECK(blocking == 0 && registers == 0, "the environment has no room for variables of NCCL");
}

}  // namespace ventris
