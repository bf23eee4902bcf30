// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// The parts of a page of heat maps around the style and script of launch/attention_view.h: up to the style,
/// from there to the data (one JSON object), and after the script.
extern const char* const kAttentionPageHead;
extern const char* const kAttentionPageBody;
extern const char* const kAttentionPageTail;

}  // namespace ventris
