// SPDX-License-Identifier: Apache-2.0
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
//    one word neither enable nor reorder joins in another: scores are compared, never added. Neighbouring
//    unknown characters become one unknown token; where U+2581 itself is a piece, a word never begins with an
//    unknown character, so that none are joined across words. Pieces that users define are matched before all
//    this, and joined with nothing: one that begins with U+2581 and has no other, as the tags of `prepare`,
//    is matched at the beginning of a word alone and ends in that word; models of other kinds, or with other
//    such pieces, are not covered. Bytes in place of an unknown character are those of that character.
//
//    A unigram model takes the segmentation with the largest sum of scores. No piece reaches into the next
//    word, so that the best segmentation of a line is that of its words, and unknown characters are as above;
//    but sums are rounded in the order of the line, and what follows of that is for CachedEncoder, whose
//    proof needs scores that are not positive, nor so low that sums might overflow. Pieces that users define
//    are pieces like others here; the normaliser does not change them, wherever they are, so that they must
//    not have a space. Their score is about -0.1 if no other is positive.
//
//    A model of characters takes them one by one; for its unknown characters the same holds. A model of words
//    takes whole words, and Tokenizer does not join unknown ones.

namespace ventris::data {

namespace {

constexpr float kLowestScore = -1e6F;  // of a piece of a unigram model

bool normaliser_allows(std::string_view message) {
  std::string_view table_bytes;
  bool defaults = true;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kReplacementsField) {
      table_bytes = fields.bytes();
    } else if (fields.number() == kAddDummyPrefixField || fields.number() == kRemoveExtraWhitespacesField ||
               fields.number() == kEscapeWhitespacesField) {  // true unless written
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

/// Requires a piece without U+2581 but at its beginning.
bool user_defined_is_of_one_word(std::string_view text, uint64_t kind) {
  if (text == kSpaceMark) return false;
  if (kind == kModelUnigram) return text.find(' ') == std::string_view::npos;
  return kind == kModelBpe && text.starts_with(kSpaceMark);
}

}  // namespace

bool words_are_normalised_apart(const SentencePieceModel& model) {
  return model.ok && model.has_trainer && !model.spaces_end_words && model.normaliser &&
         normaliser_allows(*model.normaliser);
}

bool words_are_independent(std::string_view bytes) {
  const SentencePieceModel model(bytes);
  const uint64_t kind = model.kind;
  const bool covered = kind == kModelUnigram || kind == kModelBpe || kind == kModelWord || kind == kModelChar;
  if (!covered || !words_are_normalised_apart(model)) return false;
  bool has_space_mark = kind == kModelWord;
  for (const auto& [text, score, type] : model.pieces) {
    if (text.find(kSpaceMark, 1) != std::string_view::npos) return false;
    if (type == kTypeUserDefined && !user_defined_is_of_one_word(text, kind)) return false;
    if (kind == kModelUnigram && type != kTypeUserDefined && !(score <= 0.0F && score >= kLowestScore))
      return false;
    has_space_mark = has_space_mark || (text == kSpaceMark && type == kTypeNormal);
  }
  return has_space_mark;
}

}  // namespace ventris::data
