#include "data/sentence_pairs.h"

#include <cmath>
#include <limits>

#include "data/error.h"
#include "data/files/mapped_file.h"

namespace ventris::data {
namespace {

const TokenFormat kInMemory;

}  // namespace

void TokenView::refuse(uint32_t id, const TokenFormat& format) {
  fail(ErrorKind::kBadData, "{}: a token is {}, but the vocabulary has {} tokens. Prepare the corpus again.",
       format.path, static_cast<int32_t>(id), format.vocab_size);
}

SentenceArray::SentenceArray(const int32_t* tokens, const int64_t* offsets, int64_t count)
    : stored_{.tokens = reinterpret_cast<const std::byte*>(tokens),
              .token_count = count == 0 ? 0 : offsets[count],
              .offsets = offsets,
              .count = count,
              .total = count == 0 ? 0 : offsets[count] - offsets[0],
              .longest = std::numeric_limits<int>::max(),
              .format = &kInMemory} {}

std::pair<int64_t, int64_t> SentenceArray::range(int64_t sentence) const {
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
  const auto [begin, count] = range(sentence);
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

}  // namespace ventris::data
