// SPDX-License-Identifier: Apache-2.0
#include <cublasLt.h>
#include <fmt/core.h>

#include <cstdio>

#include "backend/device/error.h"
#include "comm/nccl_library.h"

/// Prints the versions of cuBLASLt and NCCL that the program would run with, which opens them; needs no
/// device.
int main() {
  try {
    fmt::print("cuBLASLt {}\n", cublasLtGetVersion());
    fmt::print("NCCL {}\n", ventris::loaded_nccl());
  } catch (const ventris::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
