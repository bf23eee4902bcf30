// SPDX-License-Identifier: Apache-2.0
#include "data/text/word_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <unordered_map>

#include "data/error.h"
#include "data/text/sentencepiece_format.h"
#include "data/text/text_reader.h"
#include "data/text/unicode.h"

namespace ventris::data {

namespace {

// Field numbers of the trainer's options and of the normaliser.
constexpr uint64_t kVocabularySizeField = 4;
constexpr uint64_t kUnknownIdField = 40;
constexpr uint64_t kBeginIdField = 41;
constexpr uint64_t kEndIdField = 42;
constexpr uint64_t kPadIdField = 43;
constexpr uint64_t kNameField = 1;

void add_piece(ProtoWriter& model, std::string_view text, float score, uint64_t type) {
  ProtoWriter piece;
  piece.text(kPieceTextField, text);
  piece.number32(kPieceScoreField, score);
  piece.integer(kPieceTypeField, type);
  model.text(kPiecesField, piece.bytes());
}

bool is_count(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

/// The word of a line without its count.
std::string_view word_of(std::string_view line, const std::string& where) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
  const auto* const blank = std::find_if(line.begin(), line.end(), is_blank);
  const std::string_view word = line.substr(0, static_cast<size_t>(blank - line.begin()));
  std::string_view rest = line.substr(word.size());
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  if (word.empty() || (!rest.empty() && !is_count(rest))) {
    fail(
        ErrorKind::kBadData,
        "{}: '{}' is no line of a list of words: expected is one word, followed by its count or nothing (and "
        "the file is no SentencePiece model either)",
        where, line);
  }
  if (word.find(kSpaceMark) != std::string_view::npos) {
    fail(ErrorKind::kBadData,
         "{}: '{}' has U+2581, which SentencePiece writes for a space. A list of words has none; use the "
         "SentencePiece model from which these pieces are",
         where, word);
  }
  return word;
}

}  // namespace

std::string model_of_words(std::string_view list, const std::string& origin) {
  constexpr std::string_view kMarks[] = {"<unk>", "<s>", "</s>", "<pad>"};
  if (list.find('\0') != std::string_view::npos || find_invalid_utf8(list) >= 0) {
    fail(ErrorKind::kBadData,
         "{}: is neither a SentencePiece model nor a list of words, which is UTF-8 text with one word a line",
         origin);
  }
  list = without_byte_order_mark(list);
  ProtoWriter model;
  add_piece(model, kMarks[0], 0.0F, kTypeUnknown);
  add_piece(model, kMarks[1], 0.0F, kTypeControl);
  add_piece(model, kMarks[2], 0.0F, kTypeControl);
  std::unordered_map<std::string_view, int64_t> lines;  // of the words
  int64_t line_number = 0;
  while (!list.empty()) {
    const std::string_view line = list.substr(0, list.find('\n'));
    list.remove_prefix(std::min(line.size() + 1, list.size()));
    const std::string where = fmt::format("{}:{}", origin, ++line_number);
    const std::string_view word = word_of(line, where);
    if (std::find(std::begin(kMarks), std::end(kMarks), word) != std::end(kMarks)) continue;
    const auto [first, is_new] = lines.emplace(word, line_number);
    if (!is_new)
      fail(ErrorKind::kBadData, "{}: the word '{}' is also in line {}", where, word, first->second);
    add_piece(model, std::string(kSpaceMark) + std::string(word), -static_cast<float>(lines.size()),
              kTypeNormal);
  }
  if (lines.empty()) {
    fail(ErrorKind::kBadData,
         "{}: has no words; expected is a SentencePiece model or a list, one word a line", origin);
  }
  ProtoWriter trainer;
  trainer.integer(kModelKindField, kModelWord);
  trainer.integer(kVocabularySizeField, lines.size() + 3);
  trainer.integer(kUnknownIdField, 0);
  trainer.integer(kBeginIdField, 1);
  trainer.integer(kEndIdField, 2);
  trainer.integer(kPadIdField, ~uint64_t{0});  // -1: none
  model.text(kTrainerField, trainer.bytes());
  ProtoWriter normaliser;
  normaliser.text(kNameField, "identity");
  model.text(kNormaliserField, normaliser.bytes());
  return model.bytes();
}

}  // namespace ventris::data
