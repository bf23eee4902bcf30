// SPDX-License-Identifier: Apache-2.0
#include "trainer/message_colour.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace ventris {
namespace {

// Bold, in the colour that the user's terminal has for it; and back (ECMA-48, SGR).
constexpr const char* kRed = "\033[1;31m";
constexpr const char* kYellow = "\033[1;33m";
constexpr const char* kPlain = "\033[0m";

}  // namespace

bool has_message_colours() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value == nullptr ? "" : value);
  };
  return isatty(STDERR_FILENO) == 1 && variable("NO_COLOR").empty() && !variable("TERM").empty() &&
         variable("TERM") != "dumb";
}

std::string error_word() {
  const std::string word = "error:";
  return has_message_colours() ? kRed + word + kPlain : word;
}

std::string with_coloured_warning(const std::string& message) {
  constexpr size_t kLength = std::string_view("warning:").size();
  const bool warns = message.starts_with("warning:") || message.starts_with("Warning:");
  if (!warns || !has_message_colours()) return message;
  return kYellow + message.substr(0, kLength) + kPlain + message.substr(kLength);
}

}  // namespace ventris
