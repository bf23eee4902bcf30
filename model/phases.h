// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// Phases of Transformer::forward_backward() for profiles (backend/device/profile.h).
inline constexpr const char* kEncoderForward = "encoder forward";
inline constexpr const char* kDecoderForward = "decoder forward";
inline constexpr const char* kOutputAndLoss = "output layer and loss";  // with its products of backward
inline constexpr const char* kDecoderBackward = "decoder backward";
inline constexpr const char* kEncoderBackward = "encoder backward";

}  // namespace ventris
