// SPDX-License-Identifier: Apache-2.0
#include "data/sentence_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data/error.h"
#include "data/io/mapped_file.h"

namespace ventris::data {
namespace {

const TokenFormat kInMemory;

/// Asks for ranges of a file, one that begins less than a page after the range before together with it: no
/// other page lies between them.
class Expected {
 public:
  explicit Expected(const MappedFile& file) : file_(file) {}
  ~Expected() { file_.expect(begin_, static_cast<size_t>(end_ - begin_)); }
  Expected(const Expected&) = delete;
  Expected& operator=(const Expected&) = delete;

  void add(const void* address, size_t bytes) {
    const auto* const begin = static_cast<const std::byte*>(address);
    if (begin < begin_ || begin - end_ >= DigestTree::kLeafBytes) {
      file_.expect(begin_, static_cast<size_t>(end_ - begin_));
      begin_ = end_ = begin;
    }
    end_ = std::max(end_, begin + bytes);
  }

 private:
  const MappedFile& file_;
  const std::byte* begin_ = file_.at(0);
  const std::byte* end_ = begin_;
};

}  // namespace

void TokenView::refuse(uint32_t id, const TokenFormat& format) {
  fail(ErrorKind::kBadData, "{}: a token is {}, but the {} has {} tokens. Prepare the corpus again.",
       format.path, static_cast<int32_t>(id), format.vocabulary, format.vocab_size);
}

SentenceArray::SentenceArray(const int32_t* tokens, const int64_t* offsets, int64_t count)
    : stored_{.tokens = reinterpret_cast<const std::byte*>(tokens),
              .token_count = count == 0 ? 0 : offsets[count],
              .offsets = offsets,
              .count = count,
              .total = count == 0 ? 0 : offsets[count] - offsets[0],
              .longest = std::numeric_limits<int>::max(),
              .format = &kInMemory} {}

std::pair<int64_t, int64_t> SentenceArray::place(int64_t sentence) const {
  const int64_t* const at = stored_.offsets + stored_.stride * sentence + stored_.first;
  if (stored_.file != nullptr) stored_.file->check(at, 2 * sizeof(*at));
  const int64_t begin = *static_cast<const volatile int64_t*>(at);
  const int64_t end = *static_cast<const volatile int64_t*>(at + 1);
  if (begin < 0 || begin > end || end > stored_.token_count || end - begin > stored_.longest) {
    fail(
        ErrorKind::kBadData,
        "{}: the offsets of sentence {} are {} and {}, but {} tokens are stored and the longest sentence has "
        "{}. Prepare the corpus again.",
        stored_.format->path, sentence, begin, end, stored_.token_count, stored_.longest);
  }
  return {begin, end - begin};
}

TokenView SentenceArray::operator[](int64_t sentence) const {
  const auto [begin, count] = place(sentence);
  const std::byte* const tokens = stored_.tokens + begin * stored_.format->bytes;
  if (stored_.file != nullptr)
    stored_.file->check(tokens, static_cast<size_t>(count) * static_cast<size_t>(stored_.format->bytes));
  return {tokens, static_cast<size_t>(count), *stored_.format};
}

float SentencePairs::weight(int64_t pair) const {
  if (weights.empty()) return 1.0F;
  const float* const at = weights.data() + pair;
  const SentenceArray::Stored& stored = source.stored();
  if (stored.file != nullptr) stored.file->check(at, sizeof(*at));
  const float weight = *static_cast<const volatile float*>(at);
  if (!std::isfinite(weight) || weight < 0.0F) {
    fail(ErrorKind::kBadData, "{}: the weight of pair {} is {}; expected a number from 0 on",
         stored.format->path, pair, weight);
  }
  return weight;
}

// In a file that is read in pieces both sides of a pair are beside each other (version 2).
void SentencePairs::expect_lengths(std::span<const int64_t> pairs) const {
  if (!is_read_in_pieces()) return;
  const SentenceArray::Stored& stored = source.stored();
  Expected offsets(*stored.file);
  for (const int64_t pair : pairs) offsets.add(stored.offsets + stored.stride * pair, 3 * sizeof(int64_t));
}

void SentencePairs::expect_tokens(std::span<const int64_t> pairs) const {
  if (!is_read_in_pieces()) return;
  const SentenceArray::Stored& stored = source.stored();
  Expected tokens(*stored.file);
  Expected of_weights(*stored.file);
  for (const int64_t pair : pairs) {
    const int64_t begin = source.place(pair).first;
    const auto [of_target, count] = target.place(pair);
    const int64_t bytes = std::max<int64_t>(of_target + count - begin, 0) * stored.format->bytes;
    tokens.add(stored.tokens + begin * stored.format->bytes, static_cast<size_t>(bytes));
    if (weighted()) of_weights.add(weights.data() + pair, sizeof(float));
  }
}

}  // namespace ventris::data
