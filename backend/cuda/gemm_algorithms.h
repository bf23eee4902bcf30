// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace ventris {

/// The 64 bytes in which cuBLASLt describes an algorithm; good for one version of the library on one device.
using GemmAlgorithm = std::array<uint64_t, 8>;

/// The chosen algorithms of GEMMs, by shape, and as text for checkpoints and other ranks: the bits of a sum
/// depend on the algorithm.
class GemmAlgorithms {
 public:
  /// `identity` names the device, library version and driver for which the algorithms are valid.
  explicit GemmAlgorithms(std::string identity) : identity_(std::move(identity)) {}

  /// `algorithms` as text, with the identity.
  std::string text_of(const std::map<std::string, GemmAlgorithm>& algorithms) const;
  /// Adds the algorithms in a text of text_of(), in place of those of the same shapes; damaged lines are
  /// ignored. False if it is of another identity.
  bool take(const std::string& text);

  std::optional<GemmAlgorithm> find(const std::string& shape) const;
  void add(const std::string& shape, const GemmAlgorithm& algorithm) {
    algorithms_.insert_or_assign(shape, algorithm);
  }

 private:
  std::string identity_;
  std::map<std::string, GemmAlgorithm> algorithms_;
};

}  // namespace ventris
