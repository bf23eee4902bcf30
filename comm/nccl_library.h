// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// The version of NCCL that the program runs with, or "no"; it was built with nccl_library() of
/// comm/communicator.h. Opens the library. Throws Error(kUnavailable) if that fails.
std::string loaded_nccl();
/// The reason why several ranks cannot compute on devices: NCCL cannot be opened. "" if it can.
std::string nccl_unavailable_reason();

}  // namespace ventris
