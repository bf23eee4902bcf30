// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/communicator.h"
#include "comm/mpi_environment.h"

namespace ventris::testing {

/// Of this test program; made by its main().
MpiEnvironment& environment();
Communicator& world();

}  // namespace ventris::testing
