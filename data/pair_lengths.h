// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "data/sentence_pairs.h"

namespace ventris::data {

/// The lengths of pairs in memory, without their tokens: what filling batches needs (BatchSource).
class PairLengths {
 public:
  static constexpr int64_t kBytesOfAPair = 2 * sizeof(int64_t);

  /// Of all pairs, read from the first to the last on `threads` threads. Throws as SentenceArray::length().
  static PairLengths of_all(const SentencePairs& pairs, int threads);
  /// Of blocks of `size` neighbours in the order of the file: the pairs are cut into `blocks` ranges of the
  /// same size but for one pair, and a block begins anywhere in each, by the seed. Requires that the ranges
  /// have `size` pairs or more. Throws as SentenceArray::length().
  static PairLengths of_blocks(const SentencePairs& pairs, int64_t blocks, int64_t size, uint64_t seed);

  PairLengths(PairLengths&&) = default;
  PairLengths(const PairLengths&) = delete;
  PairLengths& operator=(const PairLengths&) = delete;

  /// As pairs of which lengths and sums of them alone may be read; of this object.
  const SentencePairs& pairs() const { return pairs_; }

 private:
  explicit PairLengths(int64_t pairs) : ends_(2 * static_cast<size_t>(pairs) + 1) {}
  /// The lengths of `count` pairs from `first` on become those from `to` on, until set_pairs() adds them up.
  void read(const SentencePairs& pairs, int64_t first, int64_t count, int64_t to);
  void set_pairs();

  std::vector<int64_t> ends_;  // 0, and of the source and the target of each pair, end to end
  SentencePairs pairs_;
};

}  // namespace ventris::data
