// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ventris::data::unicode {

/// Properties of Unicode as ICU has them.

/// Code points of UTF-8 text. A byte b that is not part of valid UTF-8 becomes 0xDC00 + b, which encode()
/// turns into the byte again and which is in none of the classes below.
std::u32string decode(std::string_view text);
std::string encode(std::u32string_view text);

/// Length of the valid UTF-8 sequence at `at`, which becomes `c`, or 0.
size_t decode_one(std::string_view text, size_t at, char32_t& c);

/// White space as in Python's str.split and str.rstrip.
bool is_space(char32_t c);
bool is_punctuation(char32_t c);  // general category P*
bool is_symbol(char32_t c);       // S*
bool is_number(char32_t c);       // N*
bool is_alphabetic(char32_t c);
bool is_decimal_digit(char32_t c);  // Nd
bool is_lowercase(char32_t c);
bool is_han(char32_t c);  // Chinese characters, also of Japanese

/// As Python's str.lower: full mapping, with the rule for a final capital sigma.
std::u32string lower(std::u32string_view text);

}  // namespace ventris::data::unicode
