// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "data/text/subword_model.h"

namespace ventris::data {

namespace {

// Of an unknown character below the lowest score of a piece, as in SentencePiece.
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

std::unique_ptr<SubwordModel> unigram_sampling(const SubwordPieces& pieces, double smoothing) {
  return std::make_unique<UnigramSampling>(pieces, smoothing);
}

}  // namespace ventris::data
