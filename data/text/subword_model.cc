// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_model.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

struct Defined {
  int32_t id = SubwordModel::kUnknown;
  size_t bytes = 0;
};

/// The longest user-defined piece that the text begins with.
Defined defined_at(std::string_view text, const SubwordPieces& pieces) {
  Defined defined;
  if (!pieces.has_user_defined()) return defined;
  pieces.for_each_prefix(text, [&](int32_t id, size_t bytes) {
    if (pieces.is_user_defined(id)) defined = {id, bytes};
  });
  return defined;
}

}  // namespace

SubwordText text_with_edges(std::string text, const SubwordPieces& pieces) {
  SubwordText result;
  result.text = std::move(text);
  const std::string_view all = result.text;
  std::vector<int32_t> defined;  // of each symbol, or kUnknown
  for (size_t at = 0; at < all.size();) {
    const std::string_view rest = all.substr(at);
    const Defined piece = defined_at(rest, pieces);
    result.begin.push_back(static_cast<uint32_t>(at));
    defined.push_back(piece.id);
    at += piece.bytes > 0 ? piece.bytes : character_size(rest);
  }
  result.begin.push_back(static_cast<uint32_t>(all.size()));
  const size_t symbols = result.symbols();
  size_t limit = 0;  // no edge reaches over it
  for (size_t i = 0; i < symbols; ++i) {
    result.first.push_back(static_cast<uint32_t>(result.edges.size()));
    if (defined[i] != SubwordModel::kUnknown) {
      result.edges.push_back({defined[i], 1, pieces.score(defined[i])});
      continue;
    }
    if (limit <= i) {
      limit = i + 1;
      while (limit < symbols && defined[limit] == SubwordModel::kUnknown) ++limit;
    }
    size_t end = i + 1;
    bool has_single = false;
    const size_t begin = result.begin[i];
    pieces.for_each_prefix(all.substr(begin, result.begin[limit] - begin), [&](int32_t id, size_t bytes) {
      while (result.begin[end] < begin + bytes) ++end;
      has_single = has_single || end == i + 1;
      result.edges.push_back({id, static_cast<uint32_t>(end - i), pieces.score(id)});
    });
    if (!has_single)
      result.edges.insert(result.edges.begin() + result.first[i], {SubwordModel::kUnknown, 1, 0.0});
  }
  result.first.push_back(static_cast<uint32_t>(result.edges.size()));
  return result;
}

}  // namespace ventris::data
