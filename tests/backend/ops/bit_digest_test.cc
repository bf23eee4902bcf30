// SPDX-License-Identifier: Apache-2.0
#include "backend/ops/bit_digest.h"

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/operands.h"
#include "tests/support/operation_case.h"

namespace ventris::testing {
namespace {

using Digest = std::array<uint64_t, 2>;
using Bytes = std::vector<unsigned char>;

Digest on_device(const Tensor& x) {
  const ArrayOperand<uint64_t> result({1, 2});
  bit_digest(test_context(), {.x = x, .result = result.data()});
  const std::vector<uint64_t> words = result.get();
  return {words[0], words[1]};
}

/// The digest of bytes as elements of `dtype`.
Digest on_device(const Bytes& bytes, DType dtype) {
  const ArrayOperand<unsigned char> memory(bytes);
  const auto n = static_cast<int64_t>(bytes.size() / size_of(dtype));
  return on_device({memory.data(), 1, n, n, dtype});
}

template <typename Word>
Bytes bytes_of(const std::vector<Word>& words) {
  Bytes bytes(words.size() * sizeof(Word));
  if (!bytes.empty()) std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

/// The formula of the header, word by word.
Digest by_formula(const Bytes& bytes) {
  std::vector<uint64_t> words((bytes.size() + 7) / 8);
  for (size_t i = 0; i < bytes.size(); ++i) words[i / 8] |= uint64_t{bytes[i]} << i % 8 * 8;
  words.push_back(bytes.size());
  Digest sums = {0, 0};
  for (size_t l = 0; l < 2; ++l) {
    const DigestLane& lane = kDigestLanes[l];
    for (size_t i = 0; i < words.size(); ++i) {
      uint64_t z = words[i] + (i + 1) * lane.step;
      z = (z ^ (z >> lane.a)) * lane.p;
      z = (z ^ (z >> lane.b)) * lane.q;
      sums[l] += z ^ (z >> lane.c);
    }
  }
  return sums;
}

class BitDigest : public OperationTest {
 protected:
  Bytes random_bytes(uint32_t seed) const {
    const Buffer x = Buffer::random(1, GetParam().size.cols, GetParam().dtype, seed);
    const auto* begin = static_cast<const unsigned char*>(x.view().data);
    return {begin, begin + static_cast<size_t>(x.size()) * size_of(GetParam().dtype)};
  }
  size_t element() const { return size_of(GetParam().dtype); }
};
VENTRIS_FOR_CASES(BitDigest, cases_of_length(test_dtypes(), {0, 1, 2, 3, 4, 5, 4095, 4097, 50'021, 70'002}));

TEST_P(BitDigest, IsTheFormulaOnThisDeviceAndOnCpusWithAnyNumberOfThreads) {
  Bytes bytes = random_bytes(3);
  const Digest expected = by_formula(bytes);
  EXPECT_EQ(on_device(bytes, GetParam().dtype), expected);
  EXPECT_EQ(on_device(bytes, GetParam().dtype), expected);  // and again
  const int64_t n = GetParam().size.cols;
  for (const int threads : {1, 2, 3}) {
    Context cpu({.threads = threads});
    Digest result = {1, 2};
    bit_digest(cpu, {.x = Tensor{bytes.data(), 1, n, n, GetParam().dtype}, .result = result.data()});
    EXPECT_EQ(result, expected) << threads << " threads";
  }
}

TEST_P(BitDigest, DoesNotDependOnTheAddress) {
  const Bytes bytes = random_bytes(4);
  const Digest expected = on_device(bytes, GetParam().dtype);
  for (size_t before = 1; before < 4; ++before) {
    Bytes later(before * element(), 7);
    later.insert(later.end(), bytes.begin(), bytes.end());
    const ArrayOperand<unsigned char> memory(later);
    const int64_t n = GetParam().size.cols;
    EXPECT_EQ(on_device({memory.data() + before * element(), 1, n, n, GetParam().dtype}), expected);
  }
}

TEST_P(BitDigest, ChangesWithABitAndTheLength) {
  const Bytes bytes = random_bytes(5);
  const DType dtype = GetParam().dtype;
  const Digest before = on_device(bytes, dtype);
  const auto expect_other = [&](const Bytes& other, const char* what) {
    const Digest after = on_device(other, dtype);
    EXPECT_NE(after[0], before[0]) << what;
    EXPECT_NE(after[1], before[1]) << what;
  };
  Bytes other = bytes;
  other.insert(other.end(), element(), 0);
  expect_other(other, "a zero behind");
  if (bytes.empty()) return;
  other = bytes;
  other[bytes.size() / 2] ^= 1;
  expect_other(other, "one bit");
}

class BitDigestOfSpecialNumbers : public OperationTest {};
VENTRIS_FOR_CASES(BitDigestOfSpecialNumbers, cases_of_length({DType::kF32}, {11}));

TEST_P(BitDigestOfSpecialNumbers, HasTheBitsOfAnotherProgram) {
  std::vector<uint16_t> half(100'003);
  for (size_t i = 0; i < half.size(); ++i) half[i] = static_cast<uint16_t>(i * 40503);
  std::vector<uint32_t> whole(50'021);
  for (size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<uint32_t>(i * 2654435761U);
  // From integers of any length in Python.
  EXPECT_EQ(on_device({}, DType::kF32), (Digest{0xe220a8397b1dcdaf, 0x0ff2e69699c4857e}));
  EXPECT_EQ(on_device(Bytes(2), DType::kBF16), (Digest{0xa1e8ee498719ebf1, 0xd4b5da060fd83081}));
  EXPECT_EQ(on_device(Bytes(12), DType::kF32), (Digest{0x8cb11e7b4c56aa91, 0xd661d37e57317250}));
  EXPECT_EQ(on_device(bytes_of(std::vector<float>{1.0F, -0.0F}), DType::kF32),
            (Digest{0xb68cfc53baa9819f, 0x838b9c2ecb47accf}));
  EXPECT_EQ(on_device(bytes_of(half), DType::kBF16), (Digest{0xdc429a0abb9d0f2a, 0x671827eec8c4ca0c}));
  EXPECT_EQ(on_device(bytes_of(whole), DType::kF32), (Digest{0xb835c33163a1279f, 0x85af2c4f3890e3db}));
}

}  // namespace
}  // namespace ventris::testing
