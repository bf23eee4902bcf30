// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// The type of the lines of validations.
inline constexpr const char* kValidationType = "validation";

/// The events of the lines.
inline constexpr const char* kStageEndEvent = "stage_end";
inline constexpr const char* kPlateauEvent = "plateau";
inline constexpr const char* kResumedEvent = "resumed";
inline constexpr const char* kSkippedEvent = "skipped";
inline constexpr const char* kValidScriptEvent = "valid_script";

}  // namespace ventris
