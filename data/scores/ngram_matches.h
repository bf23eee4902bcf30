// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ventris::data {

/// Empties a table of hashes. That of a very long line is replaced: clear() takes time for all its buckets.
template <typename Table>
void empty_table(Table& table) {
  constexpr size_t kMaxBuckets = size_t{1} << 14;
  if (table.bucket_count() > kMaxBuckets) {
    table = Table();
  } else {
    table.clear();
  }
}

/// The n-grams of a hypothesis, of all orders up to a maximum, and their matches in references. A trie: an
/// n-gram is found by the number of its first n - 1 symbols and its last symbol.
class NgramMatches {
 public:
  /// Sets a new hypothesis of symbols >= 0 and discards the references.
  void set_hypothesis(std::span<const int32_t> symbols, int max_order);

  /// Adds to matches[n - 1], for every order n, the number of n-grams of the hypothesis that match this
  /// reference in addition to the previous ones: an n-gram that occurs h times in the hypothesis and r times
  /// in the reference that has it most often counts min(h, r) times over all.
  void add_reference(std::span<const int32_t> symbols, int64_t* matches);
  /// The next reference is the first again.
  void forget_references();

 private:
  struct Ngram {
    int32_t number = 0;  // from 1
    int32_t in_hypothesis = 0;
    int32_t in_reference = 0;  // the last one
    int32_t matched = 0;
  };
  static uint64_t key_of(int32_t prefix, int32_t symbol) {
    return static_cast<uint64_t>(prefix) << 32 | static_cast<uint32_t>(symbol);
  }

  std::unordered_map<uint64_t, Ngram> ngrams_;
  size_t max_order_ = 0;
};

/// Numbers the distinct words of one sentence and its references from 0. Their text must outlive it.
class WordNumbers {
 public:
  void clear() { empty_table(numbers_); }
  int32_t number(std::u32string_view word) {
    return numbers_.try_emplace(word, static_cast<int32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::u32string_view, int32_t> numbers_;
};

}  // namespace ventris::data
