// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

struct Job;

/// For commands that compute for long, after make_context(): with --device auto, says that the program was
/// built without CUDA and computes on the CPU. Other reasons for the CPU are told by make_context().
void say_if_built_without_cuda(const Job& job, const std::string& device);

}  // namespace ventris
