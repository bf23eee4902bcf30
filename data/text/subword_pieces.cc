#include "data/text/subword_pieces.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

constexpr uint64_t kTypeUnused = 5;

constexpr uint64_t kModelField = 3;
constexpr uint64_t kByteFallbackField = 35;

}  // namespace

SubwordPieces::SubwordPieces(std::string_view model) {
  std::vector<Piece> pieces;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kPiecesField) read_piece(fields.bytes(), pieces);
    if (fields.number() == kTrainerField) read_trainer(fields.bytes());
  }
  build_tree(std::move(pieces));
}

void SubwordPieces::read_trainer(std::string_view message) {
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kModelField) model_ = static_cast<Model>(fields.value());
    if (fields.number() == kByteFallbackField) falls_back_to_bytes_ = fields.value() != 0;
  }
}

void SubwordPieces::read_piece(std::string_view message, std::vector<Piece>& pieces) {
  std::string_view text;
  float score = 0.0F;
  uint64_t type = kTypeNormal;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kPieceTextField) text = fields.bytes();
    if (fields.number() == kPieceScoreField && fields.bytes().size() == sizeof(score))
      std::memcpy(&score, fields.bytes().data(), sizeof(score));
    if (fields.number() == kPieceTypeField) type = fields.value();
  }
  if (type == kTypeNormal || type == kTypeUserDefined)
    pieces.push_back({text, static_cast<int32_t>(scores_.size())});
  if (type == kTypeNormal) lowest_score_ = std::min(lowest_score_, score);
  has_unused_ = has_unused_ || type == kTypeUnused;
  has_user_defined_ = has_user_defined_ || type == kTypeUserDefined;
  ends_at_words_ = ends_at_words_ && text.find(kSpaceMark, 1) == std::string_view::npos;
  scores_.push_back(score);
  is_user_defined_.push_back(type == kTypeUserDefined);
}

// Breadth first, so that the children of a node lie side by side.
void SubwordPieces::build_tree(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.text < b.text; });
  struct Range {  // of the pieces below a node; its bytes so far
    size_t begin, end, bytes;
  };
  std::vector<Range> ranges = {{0, pieces.size(), 0}};
  nodes_.emplace_back();
  labels_.push_back('\0');
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, bytes] = ranges[node];
    if (begin < end && pieces[begin].text.size() == bytes) nodes_[node].id = pieces[begin++].id;
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = pieces[begin].text[bytes];
      size_t next = begin;
      while (next < end && pieces[next].text[bytes] == label) ++next;
      nodes_.emplace_back();
      labels_.push_back(label);
      ranges.push_back({begin, next, bytes + 1});
      begin = next;
    }
    nodes_[node].children = static_cast<uint32_t>(nodes_.size()) - nodes_[node].first_child;
  }
}

}  // namespace ventris::data
