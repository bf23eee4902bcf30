#pragma once

#include <string>

namespace ventris::data {

/// How much room a file at the path has, as sentences, each with a space before it: bytes that the disk has
/// free, and limits of this process.
std::string room_at(const std::string& path);

}  // namespace ventris::data
