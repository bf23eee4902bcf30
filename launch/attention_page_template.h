#pragma once

namespace ventris {

/// The parts of a page of heat maps before and after its data, one JSON object.
extern const char* const kAttentionPageHead;
extern const char* const kAttentionPageTail;

}  // namespace ventris
