#include "data/text/word_independence.h"

#include <cstdint>
#include <optional>

#include "data/text/sentencepiece_format.h"

// Proof that words can be encoded separately. SentencePiece encodes in two steps.
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
//    covered.) Neighbouring unknown characters become one unknown token; where U+2581 itself is a piece, a
//    word never begins with an unknown character, so that none are joined across words. Pieces that users
//    define are matched before all this, and joined with nothing: one that begins with U+2581 and has no
//    other, as the tags of `prepare`, is matched at the beginning of a word alone and ends in that word;
//    models of other kinds, or with other such pieces, are not covered. Bytes in place of an unknown
//    character are those of that character.
//
//    A model of characters takes them one by one; for its unknown characters the same holds. A model of words
//    takes whole words, and Tokenizer does not join unknown ones.

namespace ventris::data {

namespace {

bool normaliser_allows(std::string_view message) {
  std::string_view table_bytes;
  bool defaults = true;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kReplacementsField) {
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
  return table && table->is_sound() && table->keeps_spaces_apart() && !table->replacements_have("  ") &&
         !table->replacements_have(kSpaceMark);
}

bool spaces_are_before_words(std::string_view trainer) {
  bool before = true;
  ProtoFields fields(trainer);
  while (fields.next()) {
    if (fields.number() == 24) before = fields.value() == 0;  // treat_whitespace_as_suffix
  }
  return fields.ok() && before;
}

/// The kind of the model, or nothing if it is not covered.
std::optional<uint64_t> kind_that_trainer_allows(std::string_view message) {
  uint64_t kind = 0;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kModelKindField) {
      kind = fields.value();
    }
  }
  const bool covered = kind == kModelBpe || kind == kModelWord || kind == kModelChar;
  return fields.ok() && covered && spaces_are_before_words(message) ? std::optional(kind) : std::nullopt;
}

}  // namespace

bool words_are_independent(std::string_view model) {
  std::optional<uint64_t> kind;
  bool normaliser = false;
  bool has_space_mark = false;
  bool has_tags = false;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kTrainerField) {
      kind = kind_that_trainer_allows(fields.bytes());
    } else if (fields.number() == kNormaliserField) {
      normaliser = normaliser_allows(fields.bytes());
    } else if (fields.number() == kPiecesField) {
      std::string_view text;
      uint64_t type = kTypeNormal;
      ProtoFields piece(fields.bytes());
      while (piece.next()) {
        if (piece.number() == kPieceTextField) {
          text = piece.bytes();
        } else if (piece.number() == kPieceTypeField) {
          type = piece.value();
        }
      }
      if (!piece.ok() || text.find(kSpaceMark, 1) != std::string_view::npos) return false;
      if (type == kTypeUserDefined) {
        if (!text.starts_with(kSpaceMark) || text == kSpaceMark) return false;
        has_tags = true;
      }
      has_space_mark = has_space_mark || (text == kSpaceMark && type == kTypeNormal);
    }
  }
  return fields.ok() && kind && normaliser && (has_space_mark || *kind == kModelWord) &&
         (!has_tags || *kind == kModelBpe);
}

bool words_are_normalised_apart(std::string_view model) {
  bool trainer = false;
  bool normaliser = false;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kTrainerField) trainer = spaces_are_before_words(fields.bytes());
    if (fields.number() == kNormaliserField) normaliser = normaliser_allows(fields.bytes());
  }
  return fields.ok() && trainer && normaliser;
}

}  // namespace ventris::data
