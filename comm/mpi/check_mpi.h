// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "backend/device/error.h"

namespace ventris {

/// Throws Error(kUnavailable) with MPI's message if `code`, the result of the call named `what`, is not
/// MPI_SUCCESS.
inline void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  fail(ExitCode::kUnavailable, "{} failed: {}. Another rank may have ended: read its message first", what,
       length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "error " + std::to_string(code));
}

}  // namespace ventris
