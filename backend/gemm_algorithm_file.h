// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>

namespace ventris {

/// The 64 bytes in which cuBLASLt describes an algorithm; good for one version of the library on one device.
using GemmAlgorithm = std::array<uint64_t, 8>;

/// The chosen algorithms of GEMMs, by shape, kept in a file so that later runs choose the same ones: the bits
/// of a sum depend on the algorithm. Of processes that choose at the same time, the first to add() a shape
/// decides for all that share the folder. An unreadable file or one of another version counts as empty;
/// damaged lines are ignored.
class GemmAlgorithmFile {
 public:
  /// If `folder` is missing or "", nothing is kept. `identity` names the device, library version and driver
  /// for which the algorithms are valid.
  GemmAlgorithmFile(const std::string& folder, const std::string& identity);

  /// The lines of `algorithms` with the identity, as in the file.
  std::string text_of(const std::map<std::string, GemmAlgorithm>& algorithms) const;
  /// Adds the algorithms in a text of text_of() to this object, not to the file, and prefers them. False if
  /// it is of another identity.
  bool take(const std::string& text);
  /// Neither reads nor writes the file from now on, nor finds what was read from it.
  void forget_file() {
    path_.clear();
    algorithms_.clear();
  }

  std::optional<GemmAlgorithm> find(const std::string& shape) const;
  /// The algorithm to use for `shape`: the one in the file if present, otherwise `algorithm`, which is then
  /// added. A file that cannot be written is reported once on stderr.
  GemmAlgorithm add(const std::string& shape, const GemmAlgorithm& algorithm);

  const std::string& path() const { return path_; }

 private:
  bool read(std::istream& from, std::map<std::string, GemmAlgorithm>& to) const;
  void load();
  void save();
  void tell(const std::string& why);

  std::string folder_;
  std::string identity_;
  std::string path_;                                 // "" if nothing is kept
  std::map<std::string, GemmAlgorithm> algorithms_;  // of the file
  std::map<std::string, GemmAlgorithm> taken_;
  bool told_ = false;
};

/// $VENTRIS_CACHE_DIR, or $XDG_CACHE_HOME/ventris, or ~/.cache/ventris; "" if none of them is set.
std::string cache_folder();

}  // namespace ventris
