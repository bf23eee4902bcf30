#include "data/word_independence.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

// Why words can be encoded alone. SentencePiece encodes in two steps.
//
// 1. The normaliser replaces, from left to right, the longest key of a table that the rest of the line begins
// with.
//    Where no key has a space (but " " -> " "), no replacement reaches over a space. With its default options
//    it drops spaces at both ends, makes runs of spaces one, writes each as U+2581 and puts one U+2581 before
//    the first word. The state at the beginning of each word is that at the beginning of a line ("a space
//    came before"), so each word becomes what it becomes alone: U+2581 and its body, or nothing if its body
//    is empty. Two things could tell the two apart, and are excluded: a replacement with two spaces in a row
//    (a word alone loses both at its end, a word in a line but one), and a U+2581 that was none of these
//    spaces.
//
// 2. BPE joins neighbours that together are a piece of the vocabulary, best score first, leftmost first.
// Where no
//    piece has a U+2581 but at its beginning, nothing is joined across the beginning of a word, and joins in
//    one word neither enable nor reorder joins in another: scores are compared, never added. (The unigram
//    model adds scores along the line, and the rounding of the sums depends on the words before; it is not
//    covered.) Neighbouring unknown characters become one unknown word; where U+2581 itself is a piece, a
//    word never begins with an unknown character, so that none are joined across words. Pieces that users
//    define are matched before all this; models that have any are not covered.

namespace ventris::data {

namespace {

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Reads the fields of a protocol buffer message.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  /// Goes to the next field; false at the end, or where the bytes are no message (then ok() is false).
  bool next() {
    if (rest_.empty() || !ok_) {
      return false;
    }
    const uint64_t key = varint();
    number_ = key >> 3;
    switch (key & 7) {
      case 0:
        value_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        take(varint());
        break;
      case 5:
        take(4);
        break;
      default:
        ok_ = false;
    }
    return ok_;
  }
  uint64_t number() const { return number_; }
  uint64_t value() const { return value_; }
  std::string_view bytes() const { return bytes_; }
  bool ok() const { return ok_; }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) {
        break;
      }
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return value;
      }
    }
    ok_ = false;
    return 0;
  }
  void take(uint64_t size) {
    if (size > rest_.size()) {
      ok_ = false;
      return;
    }
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
  }

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t number_ = 0;
  uint64_t value_ = 0;
  bool ok_ = true;
};

/// The normaliser's table: the length of a trie in bytes (u32), the trie, and the replacements, each ended by
/// a zero byte. The trie is a double array (Darts-clone) of u32 units: the child of unit u at position p for
/// a byte is at p ^ offset(u) ^ byte and has that byte as its label; a unit with a leaf has its value, the
/// place of the replacement, at p ^ offset(u).
class ReplacementTable {
 public:
  static std::optional<ReplacementTable> parse(std::string_view bytes) {
    uint32_t trie_bytes = 0;
    if (bytes.size() < sizeof(trie_bytes)) {
      return std::nullopt;
    }
    std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
    bytes.remove_prefix(sizeof(trie_bytes));
    if (trie_bytes > bytes.size() || trie_bytes % 4 != 0 || trie_bytes == 0) {
      return std::nullopt;
    }
    ReplacementTable table;
    table.units_.resize(trie_bytes / 4);
    std::memcpy(table.units_.data(), bytes.data(), trie_bytes);
    table.replacements_ = bytes.substr(trie_bytes);
    return table;
  }

  /// No key has a space but " " itself, which stays " ".
  bool keeps_spaces_apart() const {
    std::vector<std::pair<size_t, bool>> nodes = {{0, true}};
    while (!nodes.empty()) {
      const auto [node, is_root] = nodes.back();
      nodes.pop_back();
      const size_t base = node ^ offset(units_[node]);
      for (uint32_t byte = 1; byte < 256; ++byte) {
        const size_t child = base ^ byte;
        if (child >= units_.size() || (units_[child] & 0x800000ffu) != byte) {
          continue;
        }
        if (byte == ' ' && !(is_root && stays_space(child))) {
          return false;
        }
        if (byte != ' ') {
          nodes.emplace_back(child, false);
        }
      }
    }
    return true;
  }

  bool replacements_have(std::string_view text) const {
    return replacements_.find(text) != std::string_view::npos;
  }

 private:
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & (1u << 9)) >> 6); }

  bool stays_space(size_t node) const {
    const size_t base = node ^ offset(units_[node]);
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const size_t child = base ^ byte;
      if (child < units_.size() && (units_[child] & 0x800000ffu) == byte) {
        return false;
      }
    }
    const bool has_leaf = ((units_[node] >> 8) & 1) != 0;
    return has_leaf && base < units_.size() &&
           replacements_.substr(std::min<size_t>(units_[base] & 0x7fffffffu, replacements_.size()), 2) ==
               std::string_view(" \0", 2);
  }

  std::vector<uint32_t> units_;
  std::string_view replacements_;
};

// Field numbers and values of sentencepiece_model.proto.
constexpr uint64_t kPieces = 1;
constexpr uint64_t kTrainer = 2;
constexpr uint64_t kNormaliser = 3;
constexpr uint64_t kTypeNormal = 1;
constexpr uint64_t kTypeUserDefined = 4;
constexpr uint64_t kModelBpe = 2;

bool normaliser_allows(std::string_view message) {
  std::string_view table_bytes;
  bool defaults = true;
  Fields fields(message);
  while (fields.next()) {
    if (fields.number() == 2) {
      table_bytes = fields.bytes();
    } else if (fields.number() >= 3 && fields.number() <= 5) {
      // add_dummy_prefix, remove_extra_whitespaces and escape_whitespaces, true unless written
      defaults = defaults && fields.value() != 0;
    }
  }
  if (!fields.ok() || !defaults) {
    return false;
  }
  if (table_bytes.empty()) {
    return true;
  }
  const std::optional<ReplacementTable> table = ReplacementTable::parse(table_bytes);
  return table && table->keeps_spaces_apart() && !table->replacements_have("  ") &&
         !table->replacements_have(kSpaceMark);
}

bool trainer_allows(std::string_view message) {
  uint64_t kind = 0;
  bool spaces_before_words = true;
  Fields fields(message);
  while (fields.next()) {
    if (fields.number() == 3) {
      kind = fields.value();
    } else if (fields.number() == 24) {  // treat_whitespace_as_suffix
      spaces_before_words = fields.value() == 0;
    }
  }
  return fields.ok() && kind == kModelBpe && spaces_before_words;
}

}  // namespace

bool words_are_independent(std::string_view model) {
  bool trainer = false;
  bool normaliser = false;
  bool has_space_mark = false;
  Fields fields(model);
  while (fields.next()) {
    if (fields.number() == kTrainer) {
      trainer = trainer_allows(fields.bytes());
    } else if (fields.number() == kNormaliser) {
      normaliser = normaliser_allows(fields.bytes());
    } else if (fields.number() == kPieces) {
      std::string_view text;
      uint64_t type = kTypeNormal;
      Fields piece(fields.bytes());
      while (piece.next()) {
        if (piece.number() == 1) {
          text = piece.bytes();
        } else if (piece.number() == 3) {
          type = piece.value();
        }
      }
      if (!piece.ok() || type == kTypeUserDefined || text.find(kSpaceMark, 1) != std::string_view::npos) {
        return false;
      }
      has_space_mark = has_space_mark || (text == kSpaceMark && type == kTypeNormal);
    }
  }
  return fields.ok() && trainer && normaliser && has_space_mark;
}

}  // namespace ventris::data
