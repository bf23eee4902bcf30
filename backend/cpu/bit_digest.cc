// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstring>

#include "backend/ops/bit_digest.h"

namespace ventris {
namespace {

constexpr int64_t kWordBytes = sizeof(uint64_t);
constexpr int64_t kDigestChunk = 16384;  // words

template <int kLane>
uint64_t mixed_word(uint64_t word, int64_t position) {
  constexpr DigestLane lane = kDigestLanes[kLane];
  uint64_t z = word + static_cast<uint64_t>(position + 1) * lane.step;
  z = (z ^ z >> lane.a) * lane.p;
  z = (z ^ z >> lane.b) * lane.q;
  return z ^ z >> lane.c;
}

}  // namespace

void bit_digest_cpu(Context& context, const BitDigestArgs& args) {
  const char* data = static_cast<const char*>(args.x.data);
  const int64_t bytes = args.x.size() * static_cast<int64_t>(size_of(args.x.dtype));
  const int64_t whole = bytes / kWordBytes;
  const int64_t words = (bytes + kWordBytes - 1) / kWordBytes;
  std::atomic<uint64_t> first = mixed_word<0>(static_cast<uint64_t>(bytes), words);
  std::atomic<uint64_t> second = mixed_word<1>(static_cast<uint64_t>(bytes), words);
  context.pool().for_ranges(whole, kDigestChunk, [&](int64_t begin, int64_t end, int) {
    uint64_t first_sum = 0;
    uint64_t second_sum = 0;
#pragma omp simd reduction(+ : first_sum, second_sum)
    for (int64_t i = begin; i < end; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, data + i * kWordBytes, sizeof(word));
      first_sum += mixed_word<0>(word, i);
      second_sum += mixed_word<1>(word, i);
    }
    first += first_sum;
    second += second_sum;
  });
  if (whole < words) {
    uint64_t word = 0;
    std::memcpy(&word, data + whole * kWordBytes, static_cast<size_t>(bytes - whole * kWordBytes));
    first += mixed_word<0>(word, whole);
    second += mixed_word<1>(word, whole);
  }
  args.result[0] = first;
  args.result[1] = second;
}

}  // namespace ventris
