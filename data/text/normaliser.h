// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "data/text/prefix_tree.h"
#include "data/text/sentencepiece_format.h"

// Private to data/.

namespace ventris::data {

/// Normalises text byte for byte as a SentencePiece model does. Thread-safe.
class Normaliser {
 public:
  /// Requires bytes that check_sentencepiece_model() accepts; they must outlive the object.
  explicit Normaliser(std::string_view model);

  /// Overwrites `normalised`. Requires valid UTF-8.
  void normalise(std::string_view text, std::string& normalised) const;

 private:
  struct Prefix {
    std::string_view normalised;
    size_t bytes;  // of the text that it stands for
  };
  void read_options(std::string_view message);
  Prefix prefix(std::string_view text) const;
  void find_plain_characters();
  size_t plain_bytes(std::string_view text) const;

  std::optional<ReplacementTable> table_;
  PrefixTree user_defined_;  // kept as they are
  bool has_user_defined_ = false;
  std::array<bool, 128> is_plain_{};  // characters that stay as they are before another of ASCII
  bool add_dummy_prefix_ = true;
  bool remove_extra_whitespaces_ = true;
  bool escape_whitespaces_ = true;
  bool whitespace_is_suffix_ = false;
};

}  // namespace ventris::data
