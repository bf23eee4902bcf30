// SPDX-License-Identifier: Apache-2.0
#include "trainer/text.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "data/text/text_reader.h"

namespace ventris {

std::string bytes_text(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < kUnits.size()) {
    value /= 1024.0;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string thousands(int64_t value) {
  std::string text = std::to_string(value);
  for (auto place = std::ssize(text) - 3; place > (value < 0 ? 1 : 0); place -= 3)
    text.insert(static_cast<size_t>(place), ",");
  return text;
}

std::string counted(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string now_utc() {
  const auto now = std::chrono::system_clock::now();
  const auto whole = std::chrono::floor<std::chrono::seconds>(now);
  const auto part = std::chrono::duration_cast<std::chrono::milliseconds>(now - whole).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(whole)),
                     part);
}

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::string without_full_stop(std::string message) {
  if (message.ends_with('.')) message.pop_back();
  return message;
}

std::string readable(std::string_view text) {
  std::string shown = readable_lines(text);
  std::ranges::replace(shown, '\n', ' ');
  return shown;
}

std::string readable_lines(std::string_view text) {
  std::string shown(text);
  for (int64_t at = 0; (at = data::find_invalid_utf8(shown)) >= 0;) shown[static_cast<size_t>(at)] = '?';
  std::ranges::replace_if(
      shown, [](unsigned char c) { return (c < ' ' && c != '\n') || c == 0x7F; }, ' ');
  return shown;
}

}  // namespace ventris
