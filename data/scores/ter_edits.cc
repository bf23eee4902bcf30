// SPDX-License-Identifier: Apache-2.0
#include "data/scores/ter_edits.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "data/error.h"

namespace ventris::data {
namespace {

// The limits of tercom and of sacreBLEU, on which the result depends.
constexpr int kMaxShiftSize = 10;
constexpr int kMaxShiftDistance = 50;
constexpr int kBeamWidth = 25;
constexpr int kMaxShiftCandidates = 1000;
constexpr size_t kMaxTableCells = size_t{1} << 27;
constexpr int kInfinity = std::numeric_limits<int>::max() / 2;

enum Operation : char {
  kNone,
  kSame,
  kSubstitution,
  kInsertion,
  kDeletion
};  // of turning hypothesis into reference

using Words = std::vector<int32_t>;

/// Edit distances of hypotheses of one length to a reference, within a beam around the diagonal. Holds the
/// table of one hypothesis, the base; others share its rows up to the first different word.
class EditDistance {
 public:
  EditDistance(const Words& reference, size_t hypothesis_length)
      : reference_(reference),
        rows_(hypothesis_length + 1),
        columns_(reference.size() + 1),
        costs_(rows_ * columns_, kInfinity),
        operations_(rows_ * columns_, kNone),
        row_(columns_),
        previous_(columns_) {
    const double ratio = hypothesis_length == 0
                             ? 1.0
                             : static_cast<double>(reference.size()) / static_cast<double>(hypothesis_length);
    const int width =
        kBeamWidth < ratio / 2 ? static_cast<int>(std::ceil(ratio / 2 + kBeamWidth)) : kBeamWidth;
    for (size_t i = 0; i < rows_; ++i) {
      const int diagonal = static_cast<int>(std::floor(static_cast<double>(i) * ratio));
      begins_.push_back(std::max(0, diagonal - width));
      ends_.push_back(i + 1 == rows_ ? static_cast<int>(columns_)
                                     : std::min(static_cast<int>(columns_), diagonal + width));
    }
    for (size_t j = 0; j < columns_; ++j) {
      costs_[j] = static_cast<int>(j);
      operations_[j] = kInsertion;
    }
  }

  /// Makes `hypothesis` the base; rows before `first`, from 0, are already valid. Returns its distance.
  int set_base(const Words& hypothesis, size_t first) {
    for (size_t i = first + 1; i < rows_; ++i) {
      int* row = &costs_[i * columns_];
      char* operations = &operations_[i * columns_];
      std::fill(row, row + columns_, kInfinity);
      std::fill(operations, operations + columns_, kNone);
      fill_row(hypothesis[i - 1], i, row - columns_, row, operations);
    }
    return costs_.back();
  }

  /// The distance of a hypothesis that is the base outside words begin to end, or any number above `limit` if
  /// it is above `limit`.
  int distance(const Words& hypothesis, size_t begin, size_t end, int limit) {
    const int* above = &costs_[begin * columns_];
    for (size_t i = begin + 1; i < rows_; ++i) {
      std::fill(row_.begin(), row_.end(), kInfinity);
      const int min = fill_row(hypothesis[i - 1], i, above, row_.data(), nullptr);
      if (min > limit) return min;  // every path passes through a cell of this row
      if (i >= end && std::equal(row_.begin(), row_.end(), &costs_[i * columns_])) return costs_.back();
      row_.swap(previous_);
      above = previous_.data();
    }
    return above[columns_ - 1];
  }

  /// The operations that lead to the base's distance, first to last.
  std::vector<char> trace() const {
    std::vector<char> trace;
    for (size_t i = rows_ - 1, j = columns_ - 1; i > 0 || j > 0;) {
      const char operation = operations_[i * columns_ + j];
      if (operation == kNone) {
        fail(ErrorKind::kBadData, "TER: sentences of {} and {} words have no alignment within the beam",
             rows_ - 1, columns_ - 1);
      }
      trace.push_back(operation);
      if (operation != kInsertion) --i;
      if (operation != kDeletion) --j;
    }
    std::reverse(trace.begin(), trace.end());
    return trace;
  }

 private:
  /// One row of the table of costs; if costs are equal, a substitution is preferred to a deletion and that to
  /// an insertion. Returns the minimum cost.
  int fill_row(int32_t word, size_t i, const int* above, int* row, char* operations) const {
    int min = kInfinity;
    for (int j = begins_[i]; j < ends_[i]; ++j) {
      int cost = above[j] + 1;
      char operation = kDeletion;
      if (j > 0) {
        const bool same = word == reference_[static_cast<size_t>(j - 1)];
        const int diagonal = above[j - 1] + (same ? 0 : 1);
        if (diagonal <= cost) {
          cost = diagonal;
          operation = same ? kSame : kSubstitution;
        }
        if (row[j - 1] + 1 < cost) {
          cost = row[j - 1] + 1;
          operation = kInsertion;
        }
      }
      if (cost >= kInfinity) continue;
      row[j] = cost;
      if (operations != nullptr) operations[j] = operation;
      min = std::min(min, cost);
    }
    return min;
  }

  const Words& reference_;
  size_t rows_;
  size_t columns_;
  std::vector<int> costs_;        // [rows, columns] of the base
  std::vector<char> operations_;  // [rows, columns] of the base
  std::vector<int> begins_;       // of the beam in each row
  std::vector<int> ends_;
  std::vector<int> row_;
  std::vector<int> previous_;
};

/// The positions of the reference's words in the hypothesis, -1 for before it, and the number of errors
/// before each position of both.
struct Alignment {
  std::vector<int> to_hypothesis;
  std::vector<int> hypothesis_errors;
  std::vector<int> reference_errors;

  explicit Alignment(const std::vector<char>& trace) : hypothesis_errors{0}, reference_errors{0} {
    int position = -1;
    for (const char operation : trace) {
      const int error = operation == kSame ? 0 : 1;
      if (operation != kInsertion) {
        ++position;
        hypothesis_errors.push_back(hypothesis_errors.back() + error);
      }
      if (operation != kDeletion) {
        to_hypothesis.push_back(position);
        reference_errors.push_back(reference_errors.back() + error);
      }
    }
  }
};

/// Moves `length` words from `start` to before `target`, a position of the original.
void shift(const Words& words, int start, int length, int target, Words& result) {
  result.clear();
  const auto add = [&](int begin, int end) {
    begin = std::min(begin, static_cast<int>(words.size()));
    end = std::min(end, static_cast<int>(words.size()));
    if (begin < end) result.insert(result.end(), words.begin() + begin, words.begin() + end);
  };
  if (target < start) {
    add(0, target);
    add(start, start + length);
    add(target, start);
    add(start + length, static_cast<int>(words.size()));
  } else if (target > start + length) {
    add(0, start);
    add(start + length, target);
    add(start, start + length);
    add(target, static_cast<int>(words.size()));
  } else {
    add(0, start);
    add(start + length, length + target);
    add(start, start + length);
    add(length + target, static_cast<int>(words.size()));
  }
}

struct Best {
  int gain = 0;  // a shift without gain equals none
  int length = 0;
  int start = 0;
  int target = 0;
  Words words;

  /// Tercom's order: largest gain, then longest, then earliest.
  bool is_worse_than(int other_gain, int other_length, int other_start, int other_target) const {
    if (gain != other_gain) return gain < other_gain;
    if (length != other_length) return length < other_length;
    if (start != other_start) return start > other_start;
    return target > other_target;
  }
};

/// The search for shifts of one hypothesis.
class Shifts {
 public:
  Shifts(const Words& hypothesis, const Words& reference, EditDistance& distance)
      : hypothesis_(hypothesis), reference_(reference), distance_(distance) {}

  bool exhausted() const { return candidates_ >= kMaxShiftCandidates; }

  /// The best shift of the base, whose distance is `before`.
  Best best(int before) {
    Best best;
    const Alignment alignment(distance_.trace());
    const int hypothesis_length = static_cast<int>(hypothesis_.size());
    const int reference_length = static_cast<int>(reference_.size());
    for (int start = 0; start < hypothesis_length; ++start) {
      const int first = std::max(0, start - kMaxShiftDistance);
      const int last = std::min(reference_length - 1, start + kMaxShiftDistance);
      for (int from = first; from <= last; ++from) {
        const int longest = std::min({kMaxShiftSize, hypothesis_length - start, reference_length - from});
        for (int length = 1; length <= longest; ++length) {
          if (hypothesis_[start + length - 1] != reference_[from + length - 1]) break;
          try_targets(alignment, before, start, from, length, best);
          if (exhausted()) return best;
        }
      }
    }
    return best;
  }

 private:
  /// Tries to move the words start to start + length of the hypothesis to the positions to which the equal
  /// words of the reference from `from` on are aligned.
  void try_targets(const Alignment& alignment, int before, int start, int from, int length, Best& best) {
    const auto errors = [length](const std::vector<int>& sums, int begin) {
      return sums[begin + length] - sums[begin];
    };
    if (errors(alignment.hypothesis_errors, start) == 0 || errors(alignment.reference_errors, from) == 0)
      return;
    const int aligned = alignment.to_hypothesis[from];
    if (start <= aligned && aligned < start + length) return;
    int tried = -1;
    for (int offset = -1; offset < length; ++offset) {
      const int target = from + offset < 0 ? 0 : alignment.to_hypothesis[from + offset] + 1;
      if (target == tried) continue;
      tried = target;
      ++candidates_;
      shift(hypothesis_, start, length, target, shifted_);
      // Words outside of these two positions are not moved.
      const int begin = std::min(start, target);
      const int end = std::min(static_cast<int>(hypothesis_.size()), std::max(start, target) + length);
      const int wanted = std::max(best.gain, 1);
      const int gain = before - distance_.distance(shifted_, begin, end, before - wanted);
      if (gain < wanted || !best.is_worse_than(gain, length, start, target)) continue;
      best = {gain, length, start, target, shifted_};
    }
  }

  const Words& hypothesis_;
  const Words& reference_;
  EditDistance& distance_;
  Words shifted_;
  int candidates_ = 0;
};

}  // namespace

int64_t translation_edits(const std::vector<int32_t>& hypothesis, const std::vector<int32_t>& reference) {
  if (reference.empty()) return static_cast<int64_t>(hypothesis.size());
  if ((hypothesis.size() + 1) > kMaxTableCells / (reference.size() + 1)) {
    fail(ErrorKind::kBadData,
         "TER cannot compare sentences of {} and {} words: the product may be {} at most", hypothesis.size(),
         reference.size(), kMaxTableCells);
  }
  Words words = hypothesis;
  EditDistance distance(reference, words.size());
  Shifts shifts(words, reference, distance);
  int64_t made = 0;
  int edits = distance.set_base(words, 0);
  for (;;) {
    const Best best = shifts.best(edits);
    if (shifts.exhausted() || best.gain <= 0) break;
    words = best.words;
    ++made;
    edits = distance.set_base(words, static_cast<size_t>(std::min(best.start, best.target)));
  }
  return made + edits;
}

}  // namespace ventris::data
