// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_pieces.h"

#include <algorithm>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

SubwordPieces::SubwordPieces(std::string_view model) {
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kPiecesField) read_piece(fields.bytes());
    if (fields.number() != kTrainerField) continue;
    ProtoFields trainer(fields.bytes());
    while (trainer.next()) {
      if (trainer.number() == kByteFallbackField) falls_back_to_bytes_ = trainer.value() != 0;
    }
  }
  std::ranges::sort(pieces_, {}, &Piece::text);
}

void SubwordPieces::read_piece(std::string_view message) {
  const auto [text, score, type, ok] = SentencePiece::parse(message);
  const auto id = static_cast<int32_t>(scores_.size());
  if (type == kTypeNormal || type == kTypeUserDefined) pieces_.push_back({text, id});
  if (type == kTypeNormal) lowest_score_ = std::min(lowest_score_, score);
  has_unused_ = has_unused_ || type == kTypeUnused;
  has_user_defined_ = has_user_defined_ || type == kTypeUserDefined;
  ends_at_words_ = ends_at_words_ && text.find(kSpaceMark, 1) == std::string_view::npos;
  scores_.push_back(score);
  is_user_defined_.push_back(type == kTypeUserDefined);
}

}  // namespace ventris::data
