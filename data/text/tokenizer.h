// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ventris::data {

/// A SentencePiece model: text to token ids and back. Marks: unknown 0, begin 1, end 2 in models that we
/// train; a given model may have others, but must have the first and the last. If it has no begin mark, as
/// those trained by Marian, the unknown token takes its place: neither is ever produced. With a model of
/// words each unknown word is one unknown token, where SentencePiece makes neighbours one. Thread-safe for
/// const use.
class Tokenizer {
 public:
  /// From the bytes of a SentencePiece model. Throws DataError kBadData, naming `origin`, if they are not a
  /// model or a mark is missing.
  Tokenizer(std::string model, const std::string& origin);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// From the file of a SentencePiece model.
  static Tokenizer from_file(const std::string& path);

  void encode(std::string_view text, std::vector<int32_t>& ids) const;  // overwrites ids; no marks
  std::vector<int32_t> encode(std::string_view text) const;
  /// The same, and overwrites `normalised` with the line that the model cuts. Not for a model of words.
  void encode(std::string_view text, std::vector<int32_t>& ids, std::string& normalised) const;
  /// One line: line feeds, which a model with byte pieces can produce, become spaces. With a model of words
  /// the unknown token becomes the word <unk>.
  std::string decode(const std::vector<int32_t>& ids) const;
  std::string piece(int32_t id) const;
  /// The id of a piece, or -1 if there is none of that text.
  int32_t find(std::string_view piece) const;

  int32_t vocab_size() const;
  int32_t unknown_id() const;
  int32_t begin_id() const;
  bool has_begin() const;
  int32_t end_id() const;
  const std::string& model() const;  // the bytes

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The first difference between two vocabularies, in tokens or marks, for a message; empty if there is none.
std::string vocabulary_difference(const Tokenizer& a, const Tokenizer& b);

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
