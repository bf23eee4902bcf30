// SPDX-License-Identifier: Apache-2.0
#include "data/io/file_format.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <optional>

namespace ventris::data {
namespace {

/// The newest version of each that this program reads.
constexpr std::string_view kNewest[] = {
    "ventris-corpus 3", "ventris weights 2", "ventris checkpoint 1", "ventris safetensors 2", kConfigFormat,
    kMetricsFormat,     kBestFormat,         kStatusFormat,          kProbesFormat,
};

struct Format {
  std::string_view name;
  int64_t version = 0;
};

/// Empty if the text does not end in a number.
std::optional<Format> parse(std::string_view text) {
  const size_t space = text.rfind(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Format format{.name = text.substr(0, space)};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + space + 1, end, format.version);
  return error == std::errc() && stop == end ? std::optional(format) : std::nullopt;
}

/// The newest version that this program reads, if that of the text is later.
std::optional<Format> newest_below(const Format& format) {
  for (const std::string_view text : kNewest) {
    const std::optional<Format> newest = parse(text);
    if (newest->name == format.name && newest->version < format.version) return newest;
  }
  return std::nullopt;
}

}  // namespace

bool is_format_of_ours(std::string_view format) {
  const std::optional<Format> parsed = parse(format);
  return parsed && std::any_of(std::begin(kNewest), std::end(kNewest),
                               [&](std::string_view text) { return parse(text)->name == parsed->name; });
}

bool is_newer_format(std::string_view format) {
  const std::optional<Format> parsed = parse(format);
  return parsed && newest_below(*parsed);
}

void refuse_newer_format(std::string_view format, const std::string& path) {
  const std::optional<Format> parsed = parse(format);
  const std::optional<Format> newest = parsed ? newest_below(*parsed) : std::nullopt;
  if (!newest) return;
  throw NewerFormat(fmt::format(
      "{}: its format is '{}', version {}, and this program reads versions up to {}: "
      "the file was made by a newer ventris. "
      "Use that version of the program or a newer one ('ventris --version' shows the version of this one)",
      path, parsed->name, parsed->version, newest->version));
}

}  // namespace ventris::data
