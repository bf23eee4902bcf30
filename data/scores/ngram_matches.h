// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ventris::data {

/// The n-grams of a hypothesis, of all orders up to a maximum, and their matches in references. A trie: an
/// n-gram is the node of its first n - 1 symbols and its last symbol, found by a hash table.
class NgramMatches {
 public:
  /// Sets a new hypothesis of symbols >= 0 and discards the references.
  void set_hypothesis(std::span<const int32_t> symbols, int max_order);

  /// Adds to matches[n - 1], for every order n, the number of n-grams of the hypothesis that match this
  /// reference in addition to the previous ones: an n-gram that occurs h times in the hypothesis and r times
  /// in the reference that has it most often counts min(h, r) times over all.
  void add_reference(std::span<const int32_t> symbols, int64_t* matches);
  /// As add_reference(), for a hypothesis without references; matches of earlier references are not
  /// subtracted.
  void add_reference_alone(std::span<const int32_t> symbols, int64_t* matches);

 private:
  struct Slot {
    uint64_t key = 0;  // 0 in a free slot
    int32_t node = 0;
  };
  struct Node {
    int32_t in_hypothesis = 0;
    int32_t in_reference = 0;  // of the reference numbered `reference`
    int32_t reference = 0;
    int32_t matched = 0;
  };
  static uint64_t key_of(int32_t parent, int32_t symbol) {
    return (static_cast<uint64_t>(parent) + 1) << 32 | static_cast<uint32_t>(symbol);
  }
  size_t first_slot(uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }

  std::vector<Slot> slots_;
  std::vector<Node> nodes_;
  int shift_ = 0;
  int max_order_ = 0;
  int32_t references_ = 0;
};

}  // namespace ventris::data
