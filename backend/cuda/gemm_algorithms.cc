// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm_algorithms.h"

#include <fmt/core.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

namespace ventris {
namespace {

constexpr const char* kMagic = "ventris cuBLASLt algorithms 1";

/// FNV-1a, which detects a damaged line.
uint64_t digest(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

std::string line_of(const std::string& shape, const GemmAlgorithm& algorithm) {
  std::string line = shape + '\t';
  for (const uint64_t word : algorithm) line += fmt::format("{:016x}", word);
  return line + fmt::format("\t{:016x}", digest(line));
}

/// Parses a line that line_of() wrote; false if it is not one.
bool read_line(const std::string& line, std::string& shape, GemmAlgorithm& algorithm) {
  const size_t end = line.find('\t');
  constexpr size_t kHex = 16;
  if (end == std::string::npos || line.size() != end + 1 + (algorithm.size() + 1) * kHex + 1) return false;
  shape = line.substr(0, end);
  for (size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::strtoull(line.substr(end + 1 + i * kHex, kHex).c_str(), nullptr, 16);
  }
  return line == line_of(shape, algorithm);
}

}  // namespace

std::string GemmAlgorithms::text_of(const std::map<std::string, GemmAlgorithm>& algorithms) const {
  std::string text = fmt::format("{}\n{}\n", kMagic, identity_);
  for (const auto& [shape, algorithm] : algorithms) text += line_of(shape, algorithm) + '\n';
  return text;
}

bool GemmAlgorithms::take(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kMagic || !std::getline(lines, line) || line != identity_)
    return false;
  std::string shape;
  GemmAlgorithm algorithm{};
  while (std::getline(lines, line)) {
    if (read_line(line, shape, algorithm)) add(shape, algorithm);
  }
  return true;
}

std::optional<GemmAlgorithm> GemmAlgorithms::find(const std::string& shape) const {
  const auto found = algorithms_.find(shape);
  return found == algorithms_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace ventris
