// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Private to data/: the bytes of a SentencePiece model, a protocol buffer message
// (sentencepiece_model.proto).

namespace ventris::data {

/// Reads the fields of a protocol buffer message.
class ProtoFields {
 public:
  explicit ProtoFields(std::string_view bytes) : rest_(bytes) {}

  /// Advances to the next field; false at the end, or if the bytes are not a message (then ok() is false).
  bool next();
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }          // of an integer
  std::string_view bytes() const { return bytes_; }  // of any other type
  float float_value() const;                         // of a field of four bytes; NaN for another
  bool ok() const { return ok_; }

 private:
  uint64_t varint();
  void take(uint64_t size);

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t number_ = 0;
  uint64_t value_ = 0;
  bool ok_ = true;
};

// Field numbers of a model, of a piece of the vocabulary, of the trainer's options and of a normaliser.
inline constexpr uint64_t kPiecesField = 1;
inline constexpr uint64_t kTrainerField = 2;
inline constexpr uint64_t kNormaliserField = 3;
inline constexpr uint64_t kDenormaliserField = 5;
inline constexpr uint64_t kPieceTextField = 1;
inline constexpr uint64_t kPieceScoreField = 2;
inline constexpr uint64_t kPieceTypeField = 3;
inline constexpr uint64_t kModelKindField = 3;
inline constexpr uint64_t kCoverageField = 10;
inline constexpr uint64_t kWhitespaceAsSuffixField = 24;
inline constexpr uint64_t kByteFallbackField = 35;
inline constexpr uint64_t kReplacementsField = 2;
inline constexpr uint64_t kAddDummyPrefixField = 3;
inline constexpr uint64_t kRemoveExtraWhitespacesField = 4;
inline constexpr uint64_t kEscapeWhitespacesField = 5;

// Kinds of models, types of pieces.
inline constexpr uint64_t kModelUnigram = 1;
inline constexpr uint64_t kModelBpe = 2;
inline constexpr uint64_t kModelWord = 3;
inline constexpr uint64_t kModelChar = 4;
inline constexpr uint64_t kTypeNormal = 1;
inline constexpr uint64_t kTypeUnknown = 2;
inline constexpr uint64_t kTypeControl = 3;
inline constexpr uint64_t kTypeUserDefined = 4;
inline constexpr uint64_t kTypeUnused = 5;
inline constexpr uint64_t kTypeByte = 6;

/// The mark that SentencePiece writes for a space, U+2581.
inline constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Bytes of the character that UTF-8 text begins with.
inline size_t character_size(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return size < text.size() ? size : text.size();
}

/// A piece of the vocabulary.
struct SentencePiece {
  std::string_view text;
  float score = 0.0F;
  uint64_t type = kTypeNormal;
};

/// What we read of a model; views of its bytes, which must outlive it.
struct SentencePieceModel {
  uint64_t kind = kModelUnigram;
  std::vector<SentencePiece> pieces;  // by id
  bool has_trainer = false;           // the options of the trainer, of which the next three are
  bool spaces_end_words = false;      // in place of U+2581 before words
  bool byte_fallback = false;
  float character_coverage = 0.9995F;
  std::optional<std::string_view> normaliser;
  bool ok = false;  // it and its parts are messages

  explicit SentencePieceModel(std::string_view model);
};

/// The normaliser's table: the length of a trie in bytes (u32), the trie, and the replacements, each ended by
/// a zero byte. The trie is a double array (Darts-clone) of u32 units: the child of unit u at position p for
/// a byte is at p ^ offset(u) ^ byte and has that byte as its label; a unit with a leaf has its value, the
/// position of the replacement, at p ^ offset(u).
class ReplacementTable {
 public:
  /// The bytes must outlive the table.
  static std::optional<ReplacementTable> parse(std::string_view bytes);

  /// Whether every step of a search stays inside the trie, and every value is the position of a replacement.
  bool is_sound() const;
  /// Whether no key has a space except " " itself, which maps to " ". Requires a sound table.
  bool keeps_spaces_apart() const;
  bool replacements_have(std::string_view text) const {
    return replacements_.find(text) != std::string_view::npos;
  }

 private:
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6); }
  static bool has_leaf(uint32_t unit) { return ((unit >> 8) & 1) != 0; }
  static bool is_value(uint32_t unit) { return unit >> 31 != 0; }
  bool stays_space(size_t node) const;

  std::vector<uint32_t> units_;
  std::string_view replacements_;
};

/// Throws DataError kBadData, naming `origin`, for bytes beyond which SentencePiece would read or that it
/// cannot use: not a message, a table that is not sound, a piece that is not UTF-8, empty or duplicate, or
/// whose score is NaN; and for too many pieces or training options.
void check_sentencepiece_model(std::string_view model, const std::string& origin);

}  // namespace ventris::data
