// SPDX-License-Identifier: Apache-2.0
#include "data/text/subword_model.h"

#include <cmath>
#include <utility>

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

/// The text as symbols, and for each of them as a group the edges that begin there, the shortest first, with
/// the score of their piece. A symbol without a piece has an edge to kUnknown.
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

constexpr int kNoPair = -1;

class BpeDropout : public SubwordModel {
 public:
  BpeDropout(const SubwordPieces& pieces, double dropout) : pieces_(pieces), dropout_(dropout) {}

  SubwordText prepare(std::string text) override {
    SubwordText result = text_with_edges(std::move(text), pieces_);
    const auto never = [&] {
      ++result.joins;
      return false;
    };
    join_all(result, never, result.plain);
    return result;
  }

  // One number tells which join is the first to be left out, most often none.
  void draw(const SubwordText& text, KeyedRandom& random, std::vector<Token>& tokens) override {
    while (kept_.size() <= text.joins) kept_.push_back(kept_.back() * (1.0 - dropout_));
    const double at = random.uniform();
    if (at < kept_[text.joins]) {
      tokens.insert(tokens.end(), text.plain.begin(), text.plain.end());
      return;
    }
    size_t first = 0;
    while (at < kept_[first + 1]) ++first;
    size_t turn = 0;
    const auto leaves_out = [&] {
      const size_t now = turn++;
      return now == first || (now > first && random.uniform() < dropout_);
    };
    join_all(text, leaves_out, tokens);
  }

 private:
  struct Part {  // at the place of its first symbol
    int previous;
    int next;
    uint32_t symbols;  // 0: joined to one on its left
    int32_t id;
  };
  struct Join {
    double score;
    int left;
    int right;
    uint32_t symbols;  // of both
    int32_t id;
    bool operator<(const Join& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  /// Calls leaves_out() for each join when its turn comes.
  template <typename LeavesOut>
  void join_all(const SubwordText& text, LeavesOut&& leaves_out, std::vector<Token>& tokens) {
    const int count = static_cast<int>(text.symbols());
    parts_.clear();
    for (int i = 0; i < count; ++i) {
      const SubwordText::Edge& single = text.edges[text.first[static_cast<size_t>(i)]];
      parts_.push_back(
          {.previous = i - 1, .next = i + 1 < count ? i + 1 : kNoPair, .symbols = 1, .id = single.id});
    }
    joins_.clear();
    for (int i = 1; i < count; ++i) consider(text, i - 1, i);
    while (!joins_.empty()) {
      std::pop_heap(joins_.begin(), joins_.end());
      const Join join = joins_.back();
      joins_.pop_back();
      Part& left = part(join.left);
      Part& right = part(join.right);
      const bool is_there =
          left.symbols > 0 && right.symbols > 0 && left.symbols + right.symbols == join.symbols;
      if (!is_there || leaves_out()) continue;
      left = {.previous = left.previous, .next = right.next, .symbols = join.symbols, .id = join.id};
      right.symbols = 0;
      if (left.next != kNoPair) part(left.next).previous = join.left;
      consider(text, left.previous, join.left);
      consider(text, join.left, left.next);
    }
    for (int i = count > 0 ? 0 : kNoPair; i != kNoPair; i = part(i).next) {
      const auto begin = static_cast<uint32_t>(i);
      tokens.push_back({.id = part(i).id, .begin = begin, .end = begin + part(i).symbols});
    }
  }

  Part& part(int at) { return parts_[static_cast<size_t>(at)]; }

  void consider(const SubwordText& text, int left, int right) {
    if (left == kNoPair || right == kNoPair) return;
    const uint32_t symbols = part(left).symbols + part(right).symbols;
    const auto at = static_cast<size_t>(left);
    for (uint32_t e = text.first[at]; e < text.first[at + 1]; ++e) {
      const SubwordText::Edge& edge = text.edges[e];
      if (edge.symbols > symbols) return;
      if (edge.symbols < symbols) continue;
      joins_.push_back({edge.value, left, right, symbols, edge.id});
      std::push_heap(joins_.begin(), joins_.end());
      return;
    }
  }

  const SubwordPieces& pieces_;
  const double dropout_;
  std::vector<double> kept_ = {1.0};  // the probability that the first i joins are all done
  std::vector<Part> parts_;
  std::vector<Join> joins_;
};

// An unknown character scores this much below the lowest score of a piece, as in SentencePiece.
constexpr double kUnknownTokenPenalty = 10.0;

/// factor * 2^exponent: the probability of a long text is below the smallest double.
struct Scaled {
  double factor = 0.0;
  int64_t exponent = 0;
};

Scaled operator*(const Scaled& a, const Scaled& b) {
  return {a.factor * b.factor, a.exponent + b.exponent};
}

/// a / b as a plain number.
double ratio(const Scaled& a, const Scaled& b) {
  constexpr int64_t kRange = 2000;
  const int64_t exponent = std::clamp(a.exponent - b.exponent, -kRange, kRange);
  return std::ldexp(a.factor / b.factor, static_cast<int>(exponent));
}

Scaled operator+(const Scaled& a, const Scaled& b) {
  if (a.factor == 0.0) return b;
  const Scaled& larger = a.exponent >= b.exponent ? a : b;
  const Scaled& smaller = a.exponent >= b.exponent ? b : a;
  constexpr int64_t kNegligible = 100;
  const int64_t shift = std::min(larger.exponent - smaller.exponent, kNegligible);
  int exponent = 0;
  const double factor =
      std::frexp(larger.factor + std::ldexp(smaller.factor, -static_cast<int>(shift)), &exponent);
  return {factor, larger.exponent + exponent};
}

/// e^x. That of a library may differ by its last bit between processors.
Scaled exponential(double x) {
  // log(2) in two parts; the product of the first with an integer of 31 bits is exact.
  constexpr double kLog2 = 0x1.62e42fee00000p-1;
  constexpr double kLog2Rest = 0x1.a39ef35793c76p-33;
  constexpr double kLimit = 1e9;
  constexpr int kTerms = 20;  // |rest| <= log(2) / 2: the next one is below 2^-90
  x = std::clamp(x, -kLimit, kLimit);
  const double exponent = std::round(x / (kLog2 + kLog2Rest));
  const double rest = (x - exponent * kLog2) - exponent * kLog2Rest;
  double sum = 1.0;
  for (int n = kTerms; n >= 1; --n) sum = 1.0 + sum * rest / n;
  return {sum, static_cast<int64_t>(exponent)};
}

class UnigramSampling : public SubwordModel {
 public:
  UnigramSampling(const SubwordPieces& pieces, double smoothing)
      : pieces_(pieces),
        smoothing_(smoothing),
        unknown_(exponential(smoothing * (pieces.lowest_score() - kUnknownTokenPenalty))) {}

  /// The edges of group i end before symbol i; their values are the sums of their probabilities, given that
  /// one of the group is taken.
  SubwordText prepare(std::string text) override {
    SubwordText result = text_with_edges(std::move(text), pieces_);
    const size_t symbols = result.symbols();
    std::vector<Scaled> forward(symbols + 1);  // sums over all segmentations up to a symbol
    forward[0] = {1.0, 0};
    std::vector<uint32_t> first(symbols + 2);
    std::vector<Scaled> weights;
    for (size_t i = 0; i < symbols; ++i) {
      for (uint32_t e = result.first[i]; e < result.first[i + 1]; ++e) {
        const SubwordText::Edge& edge = result.edges[e];
        weights.push_back(forward[i] *
                          (edge.id == kUnknown ? unknown_ : exponential(smoothing_ * edge.value)));
        forward[i + edge.symbols] = forward[i + edge.symbols] + weights.back();
        ++first[i + edge.symbols + 1];
      }
    }
    for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<SubwordText::Edge> edges(result.edges.size());
    std::vector<uint32_t> next = first;
    for (size_t i = 0; i < symbols; ++i) {
      for (uint32_t e = result.first[i]; e < result.first[i + 1]; ++e) {
        SubwordText::Edge edge = result.edges[e];
        const size_t end = i + edge.symbols;
        const uint32_t place = next[end]++;
        const double before = place == first[end] ? 0.0 : edges[place - 1].value;
        edge.value = before + ratio(weights[e], forward[end]);
        edges[place] = edge;
      }
    }
    result.edges = std::move(edges);
    result.first = std::move(first);
    return result;
  }

  void draw(const SubwordText& text, KeyedRandom& random, std::vector<Token>& tokens) override {
    const size_t before = tokens.size();
    for (auto end = static_cast<uint32_t>(text.symbols()); end > 0;) {
      const double at = random.uniform();
      uint32_t e = text.first[end];
      while (e + 1 < text.first[end + 1] && text.edges[e].value <= at) ++e;
      const SubwordText::Edge& edge = text.edges[e];
      tokens.push_back({.id = edge.id, .begin = end - edge.symbols, .end = end});
      end -= edge.symbols;
    }
    std::reverse(tokens.begin() + static_cast<ptrdiff_t>(before), tokens.end());
  }

 private:
  const SubwordPieces& pieces_;
  const double smoothing_;
  const Scaled unknown_;
};

}  // namespace

SubwordPieces::SubwordPieces(const SentencePieceModel& model) {
  for (const auto& [text, score, type] : model.pieces) {
    const auto id = static_cast<int32_t>(scores_.size());
    if (type == kTypeNormal || type == kTypeUserDefined) pieces_.push_back({text, id});
    if (type == kTypeNormal) lowest_score_ = std::min(lowest_score_, score);
    has_unused_ = has_unused_ || type == kTypeUnused;
    has_user_defined_ = has_user_defined_ || type == kTypeUserDefined;
    ends_at_words_ = ends_at_words_ && text.find(kSpaceMark, 1) == std::string_view::npos;
    scores_.push_back(score);
    is_user_defined_.push_back(type == kTypeUserDefined);
  }
  std::ranges::sort(pieces_, {}, &Piece::text);
}

std::unique_ptr<SubwordModel> bpe_dropout(const SubwordPieces& pieces, double dropout) {
  return std::make_unique<BpeDropout>(pieces, dropout);
}

std::unique_ptr<SubwordModel> unigram_sampling(const SubwordPieces& pieces, double smoothing) {
  return std::make_unique<UnigramSampling>(pieces, smoothing);
}

}  // namespace ventris::data
