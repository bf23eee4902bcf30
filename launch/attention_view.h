// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ventris {

/// The style of maps of attention, inside of a style element of a page with --page, --panel, --line, --text
/// and
/// --muted.
extern const char* const kAttentionViewStyle;

/// What draws them, behind kPageBasics: small maps to choose from, a large one with its tokens, whose weights
/// are read out under the pointer and with the keyboard, and the legend. The page sets `repaintMaps`.
extern const char* const kAttentionViewScript;

}  // namespace ventris
