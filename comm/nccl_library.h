// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// Version of the NCCL library at run time, or "no" in a build without NCCL; nccl_library() of
/// comm/communicator.h is the version at build time. Opens the library. Throws Error(kUnavailable) if that
/// fails.
std::string loaded_nccl();
/// The reason why several ranks cannot compute on devices: NCCL cannot be opened. "" if it can.
std::string nccl_unavailable_reason();

}  // namespace ventris
