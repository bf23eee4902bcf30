// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/text/subword_model.h"

namespace ventris::data {

namespace {

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

}  // namespace

std::unique_ptr<SubwordModel> bpe_dropout(const SubwordPieces& pieces, double dropout) {
  return std::make_unique<BpeDropout>(pieces, dropout);
}

}  // namespace ventris::data
