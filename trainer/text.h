#pragma once

#include <cstdint>
#include <string>
#include <string_view>

/// Quantities in messages.

namespace ventris {

/// Bytes as "1.5 GiB".
std::string bytes_text(int64_t bytes);

/// A number of things as "1 rank" or "2 ranks"; of a noun whose plural ends in s.
std::string counted(int64_t count, std::string_view noun);

}  // namespace ventris
