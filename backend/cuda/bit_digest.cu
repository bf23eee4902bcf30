// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/elements.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/ops/bit_digest.h"

namespace ventris {
namespace {

using namespace cuda;

constexpr int kBitDigestThreads = 256;
constexpr int kLoads = 8;  // of a thread at a time
constexpr int64_t kTurnWords = int64_t{kBitDigestThreads} * kLoads;
constexpr int64_t kWordBytes = sizeof(uint64_t);

template <int kLane>
__device__ __forceinline__ unsigned long long mixed_word(uint64_t word, int64_t position) {
  constexpr DigestLane lane = kDigestLanes[kLane];
  uint64_t z = word + static_cast<uint64_t>(position + 1) * lane.step;
  z = (z ^ z >> lane.a) * lane.p;
  z = (z ^ z >> lane.b) * lane.q;
  return z ^ z >> lane.c;
}

/// Both sums of a thread.
struct DigestSums {
  unsigned long long first = 0;
  unsigned long long second = 0;

  __device__ __forceinline__ void add(uint64_t word, int64_t position) {
    first += mixed_word<0>(word, position);
    second += mixed_word<1>(word, position);
  }
};

/// Word i of `bytes`, from memory that is aligned to 2 bytes; zeros after its end.
__device__ __forceinline__ uint64_t assemble_word(const char* data, int64_t bytes, int64_t i) {
  uint64_t word = 0;
  for (int part = 0; part < 4; ++part) {
    const int64_t at = i * kWordBytes + 2 * part;
    if (at < bytes) word |= uint64_t{*reinterpret_cast<const uint16_t*>(data + at)} << 16 * part;
  }
  return word;
}

/// One block: adds the mixed words of every n-th run of kTurnWords words to `result`, n being the number of
/// blocks; a thread has kLoads loads in flight. kWords: `data` is aligned to words. Integer sums do not
/// depend on the order.
template <bool kWords>
__global__ void digest_words(const char* data, int64_t bytes, unsigned long long* result) {
  __shared__ unsigned long long room[kBitDigestThreads / kWarp];
  const int64_t words = (bytes + kWordBytes - 1) / kWordBytes;
  DigestSums sums;
  for (int64_t begin = int64_t{blockIdx.x} * kTurnWords; begin < words;
       begin += int64_t{gridDim.x} * kTurnWords) {
    const int64_t mine = begin + threadIdx.x;
    if (kWords && (begin + kTurnWords) * kWordBytes <= bytes) {
      const auto* from = reinterpret_cast<const uint64_t*>(data) + mine;
      uint64_t word[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) word[k] = from[k * kBitDigestThreads];
#pragma unroll
      for (int k = 0; k < kLoads; ++k) sums.add(word[k], mine + k * kBitDigestThreads);
    } else {
      for (int64_t i = mine; i < begin + kTurnWords && i < words; i += kBitDigestThreads)
        sums.add(assemble_word(data, bytes, i), i);
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) sums.add(static_cast<uint64_t>(bytes), words);
  const unsigned long long first = block_sum(sums.first, room);
  const unsigned long long second = block_sum(sums.second, room);
  if (threadIdx.x != 0) return;
  atomic_add(&result[0], first);
  atomic_add(&result[1], second);
}

}  // namespace

void bit_digest_cuda(Context& context, const BitDigestArgs& args) {
  VENTRIS_CUDA_CHECK(cudaMemsetAsync(args.result, 0, 2 * sizeof(*args.result), stream_of(context)));
  const int64_t bytes = args.x.size() * static_cast<int64_t>(size_of(args.x.dtype));
  const int64_t turns = bytes == 0 ? 1 : (bytes + kTurnWords * kWordBytes - 1) / (kTurnWords * kWordBytes);
  const bool aligned = reinterpret_cast<uintptr_t>(args.x.data) % kWordBytes == 0;
  dispatch_flag(aligned, [&](auto words) {
    launch_resident(context, {.name = "digest_words", .block = kBitDigestThreads}, turns,
                    digest_words<decltype(words)::value>, static_cast<const char*>(args.x.data), bytes,
                    reinterpret_cast<unsigned long long*>(args.result));
  });
}

}  // namespace ventris
