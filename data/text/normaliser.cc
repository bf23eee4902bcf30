// SPDX-License-Identifier: Apache-2.0
#include "data/text/normaliser.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ventris::data {

namespace {

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

}  // namespace

Normaliser::Normaliser(std::string_view model) {
  std::vector<PrefixTree::Key> defined;
  ProtoFields fields(model);
  while (fields.next()) {
    if (fields.number() == kNormaliserField) {
      read_options(fields.bytes());
    } else if (fields.number() == kTrainerField) {
      ProtoFields trainer(fields.bytes());
      while (trainer.next()) {
        if (trainer.number() == kWhitespaceAsSuffixField) whitespace_is_suffix_ = trainer.value() != 0;
      }
    } else if (fields.number() == kPiecesField) {
      const SentencePiece piece = SentencePiece::parse(fields.bytes());
      if (piece.type == kTypeUserDefined) defined.push_back({piece.text, 0});
    }
  }
  has_user_defined_ = !defined.empty();
  user_defined_ = PrefixTree(std::move(defined));
  find_plain_characters();
}

void Normaliser::read_options(std::string_view message) {
  ProtoFields fields(message);
  while (fields.next()) {
    if (fields.number() == kReplacementsField) {
      table_ = fields.bytes().empty() ? std::nullopt : ReplacementTable::parse(fields.bytes());
    } else if (fields.number() == kAddDummyPrefixField) {
      add_dummy_prefix_ = fields.value() != 0;
    } else if (fields.number() == kRemoveExtraWhitespacesField) {
      remove_extra_whitespaces_ = fields.value() != 0;
    } else if (fields.number() == kEscapeWhitespacesField) {
      escape_whitespaces_ = fields.value() != 0;
    }
  }
}

// A character is plain if it is no key and no key begins with it and another of ASCII.
void Normaliser::find_plain_characters() {
  if (has_user_defined_) return;
  for (size_t i = 0; i < is_plain_.size(); ++i) {
    const char first = static_cast<char>(i);
    bool plain = first != ' ' && !(table_ && table_->longest({&first, 1}).key_bytes > 0);
    for (size_t k = 0; plain && table_ && k < is_plain_.size(); ++k) {
      const char both[] = {first, static_cast<char>(k)};
      plain = !table_->has_keys_from({both, 2});
    }
    is_plain_[i] = plain;
  }
}

/// The number of bytes at the beginning of the text that stay as they are and have no space.
size_t Normaliser::plain_bytes(std::string_view text) const {
  size_t size = 0;
  while (size < text.size() && is_ascii(text[size]) && is_plain_[static_cast<size_t>(text[size])] &&
         (size + 1 == text.size() || is_ascii(text[size + 1]))) {
    ++size;
  }
  return size;
}

Normaliser::Prefix Normaliser::prefix(std::string_view text) const {
  if (has_user_defined_) {
    const size_t bytes = user_defined_.longest_prefix(text).second;
    if (bytes > 0) return {text.substr(0, bytes), bytes};
  }
  if (table_) {
    const ReplacementTable::Replacement found = table_->longest(text);
    if (found.key_bytes > 0) return {found.text, found.key_bytes};
  }
  const size_t bytes = character_size(text);
  return {text.substr(0, bytes), bytes};
}

void Normaliser::normalise(std::string_view text, std::string& normalised) const {
  normalised.clear();
  while (remove_extra_whitespaces_ && !text.empty()) {
    const Prefix next = prefix(text);
    if (next.normalised != " ") break;
    text.remove_prefix(next.bytes);
  }
  if (text.empty()) return;
  const std::string_view space = escape_whitespaces_ ? kSpaceMark : " ";
  if (add_dummy_prefix_ && !whitespace_is_suffix_) normalised += space;
  bool after_space = remove_extra_whitespaces_;
  while (!text.empty()) {
    if (const size_t bytes = plain_bytes(text); bytes > 0) {
      normalised += text.substr(0, bytes);
      text.remove_prefix(bytes);
      after_space = false;
      continue;
    }
    Prefix next = prefix(text);
    text.remove_prefix(next.bytes);
    while (after_space && next.normalised.starts_with(' ')) next.normalised.remove_prefix(1);
    if (next.normalised.empty()) continue;
    after_space = remove_extra_whitespaces_ && next.normalised.ends_with(' ');
    for (size_t at = 0; at < next.normalised.size();) {
      const size_t end = std::min(next.normalised.find(' ', at), next.normalised.size());
      normalised += next.normalised.substr(at, end - at);
      if (end < next.normalised.size()) normalised += space;
      at = end + 1;
    }
  }
  while (remove_extra_whitespaces_ && normalised.ends_with(space))
    normalised.resize(normalised.size() - space.size());
  if (add_dummy_prefix_ && whitespace_is_suffix_) normalised += space;
}

}  // namespace ventris::data
