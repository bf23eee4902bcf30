// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "backend/device/tensor.h"
#include "model/parameters.h"

namespace ventris {

class Context;

/// Attribute of "/" in checkpoints and weights files, and key in the metadata of safetensors files: the
/// digest of the parameters (of /model).
inline constexpr const char* kDigestAttribute = "parameter_digest";

/// XXH3-128 of all parameters as 32 hexadecimal digits (canonical, big-endian form): in ascending order of
/// names (bytes compared) the name, a zero byte, rows and columns as i64 little-endian (a vector has one
/// row), and the f32 values in rows without padding. Equal digests mean equal bits of all parameters. Of the
/// masters, on the device of `context`; waits for the work enqueued before.
std::string parameter_digest(Context& context, const ParameterStore& store);

/// The same for a buffer in host memory with the layout of store.values().
std::string parameter_digest(const ParameterStore& store, ConstTensor host_values);

}  // namespace ventris
