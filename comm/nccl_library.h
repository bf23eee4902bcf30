// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// The version of NCCL that the program was built with, or "no".
std::string nccl_library();
/// Version of the NCCL library at run time, or "no" in a build without NCCL. Opens the library. Throws
/// Error(kUnavailable) if that fails.
std::string loaded_nccl();
/// The reason why several ranks cannot compute on devices: NCCL cannot be opened. "" if it can.
std::string nccl_unavailable_reason();

/// Sets the environment variables with which NCCL is told what its configuration cannot, or does not, say:
/// - NCCL_COMM_BLOCKING=0: another value would override the configuration, and a call that blocks cannot be
///   aborted.
/// - NCCL_GRAPH_REGISTER=0, unless it is set: the buffers of a captured graph are not registered with the
///   network. NCCL 2.24 to 2.31 may otherwise hang where a graph has small and large collectives between
///   hosts (NVIDIA/nccl#2389).
/// For the begin of main: no other thread may read the environment meanwhile.
void set_nccl_variables();

}  // namespace ventris
