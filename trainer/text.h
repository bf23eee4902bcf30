// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Quantities in messages.

namespace ventris {

/// Bytes as "1.5 GiB".
std::string bytes_text(int64_t bytes);

/// "1,234,567".
std::string thousands(int64_t value);

/// The time as "2026-11-22T08:43:51.196Z" (ISO 8601, UTC).
std::string now_utc();

/// A number of things as "1 rank" or "2 ranks"; of a noun whose plural ends in s.
std::string counted(int64_t count, std::string_view noun);

/// An argument of a command line, quoted for a shell if necessary.
std::string shell_word(const std::string& word);

/// A message without its last full stop, to be followed by more.
std::string without_full_stop(std::string message);

/// Text of another program, for a message: control characters become spaces, and bytes that are not UTF-8
/// question marks.
std::string readable(std::string_view text);

/// The same for a message of several lines: its line ends stay.
std::string readable_lines(std::string_view text);

}  // namespace ventris
