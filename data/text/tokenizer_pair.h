// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/text/tokenizer.h"

namespace ventris::data {

/// The bytes of the SentencePiece models of a TokenizerPair.
struct TokenizerModels {
  std::string target;
  std::string source;  // empty: that of targets
  bool operator==(const TokenizerModels&) const = default;
};

/// The tokenizers of the sources and of the targets: one that both share, or two.
class TokenizerPair {
 public:
  explicit TokenizerPair(Tokenizer shared) : target_(std::move(shared)) {}
  TokenizerPair(Tokenizer source, Tokenizer target)
      : target_(std::move(target)), own_source_(std::make_unique<Tokenizer>(std::move(source))) {}
  /// Throws what Tokenizer does; of two, the message names the side.
  TokenizerPair(const TokenizerModels& models, const std::string& origin);

  const Tokenizer& source() const { return own_source_ ? *own_source_ : target_; }
  const Tokenizer& target() const { return target_; }
  /// Whether there is one tokenizer, and so one vocabulary.
  bool shared() const { return own_source_ == nullptr; }
  TokenizerModels models() const;

 private:
  Tokenizer target_;
  std::unique_ptr<Tokenizer> own_source_;
};

/// The number of tokens of the larger vocabulary.
int32_t largest_vocabulary(const TokenizerPair& tokenizers);

/// The first difference in tokens or marks, for a message, with the side if there are two; empty if there is
/// none.
std::string vocabulary_difference(const TokenizerPair& a, const TokenizerPair& b);

}  // namespace ventris::data
