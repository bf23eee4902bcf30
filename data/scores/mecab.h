// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

// Private to data/.

namespace ventris::data {

/// MeCab, which splits Japanese and Korean into words by a dictionary. Its library is loaded when the first
/// object is created, so that the program does not depend on it.
class Mecab {
 public:
  /// With the compiled dictionary of a folder. Throws DataError kMissingInput if the library or the folder is
  /// missing, kBadData if the folder has no UTF-8 dictionary that the library can read.
  explicit Mecab(const std::string& dictionary);

  const std::string& version() const { return version_; }  // of the library
  unsigned words() const { return words_; }                // in the dictionary

  /// The words of a line, each followed by a space. Not thread-safe.
  std::string cut(std::string_view line) const;

 private:
  struct Library;
  struct Model;  // of the library
  static const Library& library();

  const Library& library_;
  std::string dictionary_;
  std::string version_;
  unsigned words_ = 0;
  std::unique_ptr<Model, void (*)(Model*)> model_;
};

}  // namespace ventris::data
