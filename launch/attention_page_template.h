#pragma once

namespace ventris {

/// What stands in a page of heat maps before and after its data, one JSON object.
extern const char* const kAttentionPageHead;
extern const char* const kAttentionPageTail;

}  // namespace ventris
