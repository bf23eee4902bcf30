// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/device/context.h"

namespace ventris {

/// A bijection of 64-bit words: z ^= z >> a; z *= p; z ^= z >> b; z *= q; z ^= z >> c, after the addition of
/// `step` times the position.
struct DigestLane {
  uint64_t step;
  int a;
  uint64_t p;
  int b;
  uint64_t q;
  int c;
};
/// The finalisers of splitmix64 (Stafford's variant 13, in Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014) and of MurmurHash3 (Appleby). Steps: 2^64 over the golden
/// ratio, and a prime of XXH64.
inline constexpr DigestLane kDigestLanes[] = {
    {0x9E3779B97F4A7C15U, 30, 0xBF58476D1CE4E5B9U, 27, 0x94D049BB133111EBU, 31},
    {0xC2B2AE3D27D4EB4FU, 33, 0xFF51AFD7ED558CCDU, 33, 0xC4CEB9FE1A85EC53U, 33}};

/// A digest of the bits of x, the same on every device, for every number of threads and every instruction
/// set. The bytes of x in order of memory, then zeros up to a multiple of 8, are the words w[0] to w[m - 1],
/// little-endian; w[m] is the number of bytes. With the bijections mix_0 and mix_1 of kDigestLanes
///
///     result[l] = sum over i from 0 to m of mix_l(w[i] + (i + 1) * step_l), modulo 2^64.
///
/// Integer sums do not depend on the order of the words. Tensors of one size that differ in a single word,
/// such as by flipped bits of one element, always have different digests, since mix_l is a bijection. If
/// several words differ, the changes of both sums must cancel: the probability is 2^-128 if mixed words
/// behave like random numbers. The steps differ so that words which exchange their roles in one sum do not do
/// so in the other. Detects faults; does not resist a person who constructs a collision.
struct BitDigestArgs {
  ConstTensor x;     // contiguous, of any dtype
  uint64_t* result;  // [2] on the device, overwritten
};
void bit_digest(Context& context, const BitDigestArgs& args);

}  // namespace ventris
