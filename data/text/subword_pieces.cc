// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_pieces.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

/// The value of a piece such as <0xE7>, or -1.
int byte_of(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc() && end == piece.data() + 5 ? byte : -1;
}

}  // namespace

SubwordPieces::SubwordPieces(std::string_view model) {
  byte_ids_.fill(-1);
  std::vector<PrefixTree::Key> pieces;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kPiecesField) read_piece(fields.bytes(), pieces);
    if (fields.number() == kTrainerField) read_trainer(fields.bytes());
  }
  tree_ = PrefixTree(std::move(pieces));
}

void SubwordPieces::read_trainer(std::string_view message) {
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kModelKindField) model_ = static_cast<Model>(fields.value());
    if (fields.number() == kByteFallbackField) falls_back_to_bytes_ = fields.value() != 0;
  }
}

void SubwordPieces::read_piece(std::string_view message, std::vector<PrefixTree::Key>& pieces) {
  const auto [text, score, type, ok] = SentencePiece::parse(message);
  const auto id = static_cast<int32_t>(scores_.size());
  if (type == kTypeNormal || type == kTypeUserDefined) pieces.push_back({text, id});
  if (type == kTypeUnknown) unknown_id_ = id;
  if (const int byte = byte_of(text); type == kTypeByte && byte >= 0)
    byte_ids_[static_cast<size_t>(byte)] = id;
  if (type == kTypeNormal) {
    lowest_score_ = std::min(lowest_score_, score);
    highest_score_ = std::max(highest_score_, score);
  }
  has_unused_ = has_unused_ || type == kTypeUnused;
  has_user_defined_ = has_user_defined_ || type == kTypeUserDefined;
  ends_at_words_ = ends_at_words_ && text.find(kSpaceMark, 1) == std::string_view::npos;
  scores_.push_back(score);
  is_user_defined_.push_back(type == kTypeUserDefined);
}

}  // namespace ventris::data
