// SPDX-License-Identifier: Apache-2.0
#include "data/text/unigram_margin.h"

#include <algorithm>
#include <limits>

#include "data/text/sentencepiece_format.h"

namespace ventris::data {

namespace {

// As in SentencePiece.
constexpr float kUnknownPenalty = 10.0F;
constexpr double kUserDefinedScore = -0.1;

}  // namespace

UnigramMargin::UnigramMargin(std::string_view model)
    : pieces_(std::make_shared<const SubwordPieces>(model)),
      unknown_score_(pieces_->lowest_score() - kUnknownPenalty) {}

UnigramMargin::Sums UnigramMargin::of(std::string_view normalised) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  ends_.assign(normalised.size() + 1, {.best = kNever, .second = kNever});
  ends_[0].best = 0.0;
  uint32_t characters = 0;
  for (size_t at = 0; at < normalised.size(); ++characters) {
    const std::string_view rest = normalised.substr(at);
    const Ends before = ends_[at];
    const auto consider = [&](size_t bytes, double score) {
      Ends& end = ends_[at + bytes];
      const double candidate = before.best + score;
      if (candidate > end.best) {
        end = {.best = candidate, .second = std::max(end.best, before.second + score)};
      } else {
        end.second = std::max(end.second, candidate);
      }
    };
    const size_t character = character_size(rest);
    bool has_character = false;
    pieces_->for_each_prefix(rest, [&](int32_t id, size_t bytes) {
      has_character = has_character || bytes == character;
      consider(bytes, pieces_->is_user_defined(id) ? kUserDefinedScore : pieces_->score(id));
    });
    if (!has_character) consider(character, unknown_score_);
    at += character;
  }
  return {.best = ends_.back().best, .second = ends_.back().second, .characters = characters};
}

}  // namespace ventris::data
