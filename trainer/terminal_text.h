// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ventris {

/// The size of a terminal in cells; 0: not known.
struct TerminalSize {
  size_t columns = 0;
  size_t rows = 0;
  bool operator==(const TerminalSize&) const = default;
};

/// The characters that a terminal can show.
enum class Charset { kAscii, kUtf8 };

/// Those of the locale that LC_ALL, LC_CTYPE or LANG names, the first of them that is set. ASCII on the Linux
/// console, whose fonts have 512 characters at most.
Charset message_charset();

/// The cells of a terminal that UTF-8 text takes in one row: two for a wide character (Chinese, for example),
/// none for one that combines with the one before, nor for a sequence that sets colours (ECMA-48, SGR).
size_t cells_of(std::string_view text);

/// The longest beginning of the text that takes at most so many cells; if it was cut, colours end with it.
std::string cut_to_cells(const std::string& text, size_t cells);

/// The rows that the text takes where a terminal of so many columns breaks it; 1 for an empty text.
size_t rows_of(std::string_view text, size_t columns);

/// A text of the user in these characters: others become question marks, control characters spaces.
std::string in_charset(std::string_view text, Charset charset);

}  // namespace ventris
