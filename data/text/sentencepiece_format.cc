// SPDX-License-Identifier: Apache-2.0
#include "data/text/sentencepiece_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "data/error.h"
#include "data/text/text_reader.h"

namespace ventris::data {

bool ProtoFields::next() {
  if (rest_.empty() || !ok_) {
    return false;
  }
  const uint64_t key = varint();
  number_ = key >> 3;
  switch (key & 7) {
    case 0:
      value_ = varint();
      bytes_ = {};
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

uint64_t ProtoFields::varint() {
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

void ProtoFields::take(uint64_t size) {
  if (size > rest_.size()) {
    ok_ = false;
    return;
  }
  bytes_ = rest_.substr(0, size);
  rest_.remove_prefix(size);
}

float ProtoFields::float_value() const {
  float value = std::numeric_limits<float>::quiet_NaN();
  if (bytes_.size() == sizeof(value)) std::memcpy(&value, bytes_.data(), sizeof(value));
  return value;
}

namespace {

SentencePiece piece_of(std::string_view message, bool& ok) {
  SentencePiece piece;
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kPieceTextField) {
      piece.text = fields.bytes();
    } else if (fields.number() == kPieceScoreField && fields.bytes().size() == sizeof(float)) {
      piece.score = fields.float_value();
    } else if (fields.number() == kPieceTypeField && fields.value() >= kTypeNormal &&
               fields.value() <= kTypeByte) {  // protocol buffers ignore values that an enumeration lacks
      piece.type = fields.value();
    }
  }
  ok = ok && fields.ok();
  return piece;
}

}  // namespace

SentencePieceModel::SentencePieceModel(std::string_view model) {
  bool parts_are_ok = true;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kPiecesField) pieces.push_back(piece_of(fields.bytes(), parts_are_ok));
    if (fields.number() == kNormaliserField) normaliser = fields.bytes();
    if (fields.number() != kTrainerField) continue;
    has_trainer = true;
    ProtoFields trainer(fields.bytes());
    while (trainer.next()) {
      if (trainer.number() == kModelKindField) kind = trainer.value();
      if (trainer.number() == kCoverageField) character_coverage = trainer.float_value();
      if (trainer.number() == kWhitespaceAsSuffixField) spaces_end_words = trainer.value() != 0;
      if (trainer.number() == kByteFallbackField) byte_fallback = trainer.value() != 0;
    }
    parts_are_ok = parts_are_ok && trainer.ok();
  }
  ok = fields.ok() && parts_are_ok;
}

std::optional<ReplacementTable> ReplacementTable::parse(std::string_view bytes) {
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

bool ReplacementTable::is_sound() const {
  if (replacements_.empty() || replacements_.back() != '\0' || is_value(units_[0])) return false;
  for (size_t i = 0; i < units_.size(); ++i) {
    const uint32_t unit = units_[i];
    if (is_value(unit)) continue;
    // A search accesses the position of any byte, of children and others.
    const size_t base = i ^ offset(unit);
    if ((base | 0xff) >= units_.size()) return false;
    if (has_leaf(unit) && (units_[base] & 0x7fffffffu) >= replacements_.size()) return false;
  }
  return true;
}

bool ReplacementTable::keeps_spaces_apart() const {
  std::vector<bool> seen(units_.size());
  std::vector<std::pair<size_t, bool>> nodes = {{0, true}};
  while (!nodes.empty()) {
    const auto [node, is_root] = nodes.back();
    nodes.pop_back();
    if (seen[node]) continue;  // ends of keys share their nodes
    seen[node] = true;
    const size_t base = node ^ offset(units_[node]);
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const size_t child = base ^ byte;
      if ((units_[child] & 0x800000ffu) != byte) {
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

bool ReplacementTable::stays_space(size_t node) const {
  const size_t base = node ^ offset(units_[node]);
  for (uint32_t byte = 1; byte < 256; ++byte) {
    if ((units_[base ^ byte] & 0x800000ffu) == byte) {
      return false;
    }
  }
  return has_leaf(units_[node]) &&
         replacements_.substr(units_[base] & 0x7fffffffu, 2) == std::string_view(" \0", 2);
}

namespace {

// The memory of the library for a piece, about 200 bytes, and for a name in the training options is many
// times their size in the file.
constexpr size_t kMaxPieces = 1'000'000;
constexpr size_t kMaxOtherBytes = size_t{256} << 10;

[[noreturn]] void refuse_model(const std::string& origin, const char* what) {
  fail(ErrorKind::kBadData, "{}: the tokenizer is not a sound SentencePiece model: {}", origin, what);
}

/// Returns its text.
std::string_view check_piece(std::string_view message, const std::string& origin) {
  bool ok = true;
  const SentencePiece piece = piece_of(message, ok);
  if (!ok) refuse_model(origin, "a piece of its vocabulary is not a message");
  if (piece.text.empty()) refuse_model(origin, "a piece of its vocabulary is empty");
  if (piece.text.find('\0') != std::string_view::npos || find_invalid_utf8(piece.text) >= 0)
    refuse_model(origin, "a piece of its vocabulary is not UTF-8 text");
  if (!std::isfinite(piece.score))
    refuse_model(origin, "the score of a piece of its vocabulary is not a number");
  return piece.text;
}

void check_normaliser(std::string_view message, const std::string& origin) {
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() != kReplacementsField || fields.bytes().empty()) continue;
    const std::optional<ReplacementTable> table = ReplacementTable::parse(fields.bytes());
    if (!table || !table->is_sound())
      refuse_model(origin, "the table of its normaliser leads outside of the table");
  }
  if (!fields.ok()) refuse_model(origin, "its normaliser is not a message");
}

}  // namespace

void check_sentencepiece_model(std::string_view model, const std::string& origin) {
  size_t count = 0;
  size_t other_bytes = 0;
  ProtoFields sizes(model);
  while (sizes.next()) {
    const bool is_normaliser = sizes.number() == kNormaliserField || sizes.number() == kDenormaliserField;
    if (sizes.number() == kPiecesField) ++count;
    if (sizes.number() != kPiecesField && !is_normaliser) other_bytes += sizes.bytes().size();
  }
  if (!sizes.ok()) refuse_model(origin, "it is not a protocol buffer message");
  if (count > kMaxPieces) refuse_model(origin, "its vocabulary has more than 1,000,000 pieces");
  if (other_bytes > kMaxOtherBytes)
    refuse_model(origin, "it has more than 256 KiB in addition to vocabulary and normaliser");

  std::vector<std::string_view> pieces;
  pieces.reserve(count);
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kPiecesField) pieces.push_back(check_piece(fields.bytes(), origin));
    if (fields.number() == kNormaliserField || fields.number() == kDenormaliserField)
      check_normaliser(fields.bytes(), origin);
  }
  std::sort(pieces.begin(), pieces.end());
  if (std::adjacent_find(pieces.begin(), pieces.end()) != pieces.end())
    refuse_model(origin, "a piece is in its vocabulary twice");
}

}  // namespace ventris::data
