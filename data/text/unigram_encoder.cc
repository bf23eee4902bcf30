// SPDX-License-Identifier: Apache-2.0
#include "data/text/unigram_encoder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/text/sentencepiece_format.h"

// Proof that analyse() is right.
//
// What SentencePiece computes. V[e] is the single-precision sum of the best segmentation of the line up to
// byte e, V[0] = 0. In the order of its beginnings s, each token (s, e) of score w is a candidate: c is V[s]
// + w in double precision (for an unknown character in single precision). If it is the first that ends at e
// or c > V[e], then V[e] becomes c rounded to single precision, and the token that of e. The tokens are then
// read backwards from the end.
//
// Let no token reach over the ends of a part of the line, S be V at its beginning, and all scores be at most
// 0. Let B be the exact sum of the scores of its best segmentation, W = -B, and m > 0 the difference to any
// other one. L is the number of its characters, and so at least the number of tokens of any segmentation.
//
// 1. Rounding is monotonic. So V[e] never decreases while candidates are compared, and V[s] >= V[e] for the
//    token (s, e) that is chosen. Let x = V[s] + w be exact, and d a bound on the error of rounding it to
//    double and then single precision. Each candidate was either not above V[e] at its time, so V[e] >= c, or
//    became V[e] rounded: V[e] >= x - d for each, and V[e] <= x + d for the one that was chosen.
// 2. So along the best segmentation V grows by at least its scores but d each time: V[end] >= S + B - L d.
//    Along the chosen segmentation, of exact sum T, it grows by at most its scores and d: V[end] <= S + T +
//    L d. Hence T >= B - 2 L d: if m > 2 L d, the chosen segmentation is the best one.
// 3. d. On the chosen segmentation 0 >= S >= V[e] >= V[end]. On the best one V[e] >= S + B - L d, and V[e] <=
//    S. So all these x are at most M = |S| + W + (L + 1) d in size, and d = M (2^-24 + 2^-52), as sums of
//    single-precision numbers that are subnormal are exact. With L <= 2^10, M < (|S| + W) (1 + 2^-12).
// 4. |S| is at most the weights of what stands before, times (1 + 2^-24 + 2^-52) for each token: below 1.07
//    for the 2^20 bytes that a line may have. So 2 L d < 2.2 L 2^-24 (weights before + W), and m > 2^-22 L
//    (weights before + W) is enough, with a factor of 1.8 for the rounding in analyse() itself, which
//    computes m to 2 L 2^-53 W.
//
// The score of a user's piece is a double, and about -0.1 if no score is positive. Where scores are positive,
// or so low that sums might overflow, nothing is proved.

namespace ventris::data {

namespace {

constexpr float kUnknownPenalty = 10.0F;  // as in SentencePiece
constexpr float kLowestScore = -1e6F;     // for which sums are proved not to overflow
constexpr uint32_t kMostSymbols = 1024;   // L of the proof

}  // namespace

struct UnigramEncoder::Model {
  explicit Model(std::string_view bytes)
      : normaliser(bytes), pieces(bytes), unknown_score(pieces.lowest_score() - kUnknownPenalty) {
    ProtoFields fields(bytes);
    while (fields.next()) {
      if (fields.number() != kPiecesField) continue;
      const SentencePiece piece = SentencePiece::parse(fields.bytes());
      // The rule of SentencePiece, in its precisions.
      scores.push_back(piece.type == kTypeUserDefined
                           ? static_cast<float>(piece.text.size()) * pieces.highest_score() - 0.1
                           : piece.score);
    }
    sums_are_bounded = unknown_score >= kLowestScore && unknown_score <= 0.0F &&
                       std::all_of(scores.begin(), scores.end(), [](double score) { return score <= 0.0; });
  }

  /// Calls each(id, bytes, score) for every token that the text begins with; kUnknown last.
  template <typename Each>
  void for_each_token(std::string_view text, Each&& each) const {
    const size_t character = character_size(text);
    bool has_character = false;
    pieces.for_each_prefix(text, [&](int32_t id, size_t bytes) {
      has_character = has_character || bytes == character;
      each(id, bytes, scores[static_cast<size_t>(id)]);
    });
    if (!has_character) each(kUnknown, character, unknown_score);
  }

  Normaliser normaliser;
  SubwordPieces pieces;
  std::vector<double> scores;
  float unknown_score;
  bool sums_are_bounded;  // as the proof needs it
};

UnigramEncoder::UnigramEncoder(std::string_view model) : model_(std::make_shared<const Model>(model)) {}

float UnigramEncoder::encode(std::string_view text, float sum, std::vector<int32_t>& ids) {
  model_->normaliser.normalise(text, text_);
  const std::string_view all = text_;
  ends_.assign(all.size() + 1, {.sum = 0.0F, .id = kNone, .begin = 0});
  ends_[0].sum = sum;
  for (size_t at = 0; at < all.size();) {
    const float before = ends_[at].sum;
    const auto consider = [&](int32_t id, size_t bytes, auto score) {
      End& end = ends_[at + bytes];
      const auto candidate = score + before;  // for an unknown character in single precision
      if (end.id == kNone || candidate > end.sum)
        end = {.sum = static_cast<float>(candidate), .id = id, .begin = static_cast<uint32_t>(at)};
    };
    model_->for_each_token(all.substr(at), consider);
    at += character_size(all.substr(at));
  }
  tokens_.clear();
  for (size_t end = all.size(); end > 0; end = ends_[end].begin)
    tokens_.push_back({.id = ends_[end].id, .begin = ends_[end].begin});
  append_ids(ids);
  return ends_[all.size()].sum;
}

void UnigramEncoder::analyse(std::string_view text, Part& part) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  model_->normaliser.normalise(text, text_);
  const std::string_view all = text_;
  two_ends_.assign(all.size() + 1, {.best = kNever, .second = kNever, .id = kNone, .begin = 0});
  two_ends_[0].best = 0.0;
  uint32_t symbols = 0;
  for (size_t at = 0; at < all.size(); ++symbols) {
    const TwoEnds& before = two_ends_[at];
    const auto consider = [&](int32_t id, size_t bytes, double score) {
      TwoEnds& end = two_ends_[at + bytes];
      const double candidate = before.best + score;
      if (candidate > end.best) {
        end.second = std::max(end.best, before.second + score);
        end.best = candidate;
        end.id = id;
        end.begin = static_cast<uint32_t>(at);
      } else {
        end.second = std::max(end.second, candidate);
      }
    };
    model_->for_each_token(all.substr(at), consider);
    at += character_size(all.substr(at));
  }
  tokens_.clear();
  for (size_t end = all.size(); end > 0; end = two_ends_[end].begin)
    tokens_.push_back({.id = two_ends_[end].id, .begin = two_ends_[end].begin});
  part.ids.clear();
  append_ids(part.ids);
  part.scores.clear();
  for (auto token = tokens_.rbegin(); token != tokens_.rend(); ++token) {
    part.scores.push_back(token->id == kUnknown ? model_->unknown_score
                                                : model_->scores[static_cast<size_t>(token->id)]);
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const TwoEnds& end = two_ends_[all.size()];
  part.weight = std::nextafter(static_cast<float>(-end.best), kInfinity);
  const double limit = (end.best - end.second) / (0x1p-22 * std::max(symbols, 1U));
  const bool proved = model_->sums_are_bounded && symbols <= kMostSymbols;
  part.limit = proved ? std::nextafter(static_cast<float>(limit), 0.0F) : 0.0F;
}

/// Neighbouring unknown characters become one unknown token, or each the tokens of its bytes.
void UnigramEncoder::append_ids(std::vector<int32_t>& ids) const {
  const SubwordPieces& pieces = model_->pieces;
  bool after_unknown = false;
  for (auto token = tokens_.rbegin(); token != tokens_.rend(); ++token) {
    const bool unknown = token->id == kUnknown;
    if (!unknown) {
      ids.push_back(token->id);
    } else if (pieces.falls_back_to_bytes()) {
      const std::string_view rest = std::string_view(text_).substr(token->begin);
      for (const char byte : rest.substr(0, character_size(rest)))
        ids.push_back(pieces.byte_id(static_cast<unsigned char>(byte)));
    } else if (!after_unknown) {
      ids.push_back(pieces.unknown_id());
    }
    after_unknown = unknown;
  }
}

}  // namespace ventris::data
