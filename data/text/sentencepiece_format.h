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

  /// Goes to the next field; false at the end, or where the bytes are no message (then ok() is false).
  bool next();
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }          // of a whole number
  std::string_view bytes() const { return bytes_; }  // of anything else
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

// Field numbers of a model, of a piece of the vocabulary and of a normaliser.
inline constexpr uint64_t kPiecesField = 1;
inline constexpr uint64_t kTrainerField = 2;
inline constexpr uint64_t kNormaliserField = 3;
inline constexpr uint64_t kDenormaliserField = 5;
inline constexpr uint64_t kPieceTextField = 1;
inline constexpr uint64_t kPieceScoreField = 2;
inline constexpr uint64_t kPieceTypeField = 3;
inline constexpr uint64_t kReplacementsField = 2;

/// The normaliser's table: the length of a trie in bytes (u32), the trie, and the replacements, each ended by
/// a zero byte. The trie is a double array (Darts-clone) of u32 units: the child of unit u at position p for
/// a byte is at p ^ offset(u) ^ byte and has that byte as its label; a unit with a leaf has its value, the
/// place of the replacement, at p ^ offset(u).
class ReplacementTable {
 public:
  static std::optional<ReplacementTable> parse(std::string_view bytes);

  /// Every step of a search stays inside the trie, and every value is the place of a replacement.
  bool is_sound() const;
  /// No key has a space but " " itself, which stays " ". Requires a sound table.
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

/// Throws DataError kBadData, naming `origin`, for bytes that SentencePiece would read past their end or
/// cannot use: no message, a table that is not sound, a piece that is no text, is empty or there twice, or
/// whose score is no number; and for more pieces or options of the training than it is worth giving memory
/// to.
void check_sentencepiece_model(std::string_view model, const std::string& origin);

}  // namespace ventris::data
