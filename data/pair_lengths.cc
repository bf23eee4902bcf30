// SPDX-License-Identifier: Apache-2.0
#include "data/pair_lengths.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "data/files/parallel_pieces.h"
#include "data/text/keyed_random.h"

namespace ventris::data {
namespace {

/// Asks for the lengths of neighbours.
void expect_lengths(const SentencePairs& pairs, int64_t first, int64_t count) {
  std::vector<int64_t> expected(static_cast<size_t>(count));
  std::iota(expected.begin(), expected.end(), first);
  pairs.expect_lengths(expected);
}

}  // namespace

PairLengths PairLengths::of_all(const SentencePairs& pairs, int threads) {
  constexpr int64_t kPiece = int64_t{1} << 16;  // pairs, whose offsets are a MiB
  constexpr int64_t kAhead = 4;                 // pieces that are asked for at once
  PairLengths lengths(pairs.size());
  for_pieces((pairs.size() + kPiece - 1) / kPiece, threads, [&](int64_t piece) {
    const int64_t first = piece * kPiece;
    expect_lengths(pairs, first, std::min(kAhead * kPiece, pairs.size() - first));
    lengths.read(pairs, first, std::min(kPiece, pairs.size() - first), first);
  });
  lengths.set_pairs();
  return lengths;
}

PairLengths PairLengths::of_blocks(const SentencePairs& pairs, int64_t blocks, int64_t size, uint64_t seed) {
  std::vector<int64_t> first;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * pairs.size() / blocks;
    const int64_t places = (block + 1) * pairs.size() / blocks - begin - size + 1;
    const uint64_t random = split_mix(split_mix(seed) ^ static_cast<uint64_t>(block));
    first.push_back(begin + static_cast<int64_t>(random % static_cast<uint64_t>(places)));
    expect_lengths(pairs, first.back(), size);
  }
  PairLengths lengths(blocks * size);
  for (int64_t block = 0; block < blocks; ++block)
    lengths.read(pairs, first[static_cast<size_t>(block)], size, block * size);
  lengths.set_pairs();
  return lengths;
}

void PairLengths::read(const SentencePairs& pairs, int64_t first, int64_t count, int64_t to) {
  int64_t* at = ends_.data() + 2 * to + 1;
  for (int64_t pair = first; pair < first + count; ++pair) {
    *at++ = pairs.source.length(pair);
    *at++ = pairs.target.length(pair);
  }
}

void PairLengths::set_pairs() {
  int64_t of_sources = 0;
  for (size_t i = 1; i < ends_.size(); ++i) {
    of_sources += i % 2 == 1 ? ends_[i] : 0;
    ends_[i] += ends_[i - 1];
  }
  SentenceArray::Stored source{.token_count = ends_.back(),
                               .offsets = ends_.data(),
                               .stride = 2,
                               .count = std::ssize(ends_) / 2,
                               .total = of_sources,
                               .longest = std::numeric_limits<int>::max()};
  SentenceArray::Stored target = source;
  target.first = 1;
  target.total = ends_.back() - of_sources;
  pairs_ = {SentenceArray(source), SentenceArray(target)};
}

}  // namespace ventris::data
