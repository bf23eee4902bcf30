// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/mma.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "backend/cuda/intrinsics.cuh"
#include "tests/emulation/device_buffer.h"

namespace ventris::cuda {
namespace {

using testing::DeviceArray;

/// Element (row, column) that a lane holds in a place of its fragment. A place is a half of a register, the
/// low one first, or an f32.
struct At {
  int row;
  int column;
};

/// The tables of the PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", in its words:
/// groupID = %laneid >> 2, threadID_in_group = %laneid % 4.
At place_in_a(int lane, int i) {
  const int row = (i >= 0 && i < 2) || (i >= 4 && i < 6) ? lane >> 2 : (lane >> 2) + 8;
  const int column = i < 4 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8;
  return {row, column};
}
At place_in_b(int lane, int i) {
  const int row = i < 2 ? lane % 4 * 2 + (i & 1) : lane % 4 * 2 + (i & 1) + 8;
  return {row, lane >> 2};
}
At place_in_c(int lane, int i) {
  return {i < 2 ? lane >> 2 : (lane >> 2) + 8, lane % 4 * 2 + (i & 1)};
}

/// Small integers, which bf16 and sums in f32 hold exactly.
int number(int seed, int row, int column) {
  return (row * 31 + column * 17 + seed * 7) % 23 - 11;
}
uint32_t bf16_of(int value) {
  return BF16(static_cast<float>(value)).bits;
}

/// One warp. fragments: a [32, 4] and b [32, 2] registers; d: [32, 4].
__global__ void multiply_tile(const uint32_t* a, const uint32_t* b, float* d) {
  const int l = static_cast<int>(threadIdx.x);
  uint32_t left[4];
  for (int i = 0; i < 4; ++i) left[i] = a[4 * l + i];
  float sum[4];
  for (int i = 0; i < 4; ++i) sum[i] = d[4 * l + i];
  multiply_16x8x16(sum, left, {b[2 * l], b[2 * l + 1]});
  for (int i = 0; i < 4; ++i) d[4 * l + i] = sum[i];
}

TEST(TensorCore, MultipliesFragmentsLaidOutAsThePtxIsaSays) {
  std::vector<uint32_t> a(32 * 4), b(32 * 2);
  std::vector<float> d(32 * 4);
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 8; ++i) {
      const At at = place_in_a(l, i);
      a[static_cast<size_t>(4 * l + i / 2)] |= bf16_of(number(1, at.row, at.column)) << (16 * (i % 2));
    }
    for (int i = 0; i < 4; ++i) {
      const At at = place_in_b(l, i);
      b[static_cast<size_t>(2 * l + i / 2)] |= bf16_of(number(2, at.row, at.column)) << (16 * (i % 2));
      const At result = place_in_c(l, i);
      d[static_cast<size_t>(4 * l + i)] = static_cast<float>(number(3, result.row, result.column));
    }
  }
  const DeviceArray<uint32_t> device_a(a), device_b(b);
  const DeviceArray<float> device_d(d);
  launch({.name = "multiply", .grid = 1, .block = 32}, testing::cuda_stream(), multiply_tile, device_a.data(),
         device_b.data(), device_d.data());
  const std::vector<float> got = device_d.get(testing::cuda_stream());
  for (int l = 0; l < 32; ++l) {
    for (int i = 0; i < 4; ++i) {
      const At at = place_in_c(l, i);
      int expected = number(3, at.row, at.column);
      for (int k = 0; k < 16; ++k) expected += number(1, at.row, k) * number(2, k, at.column);
      EXPECT_EQ(got[static_cast<size_t>(4 * l + i)], static_cast<float>(expected)) << l << " " << i;
    }
  }
}

/// One warp: the fragments that load_matrices makes of four matrices, rows of which lie in any order.
template <bool kTransposed>
__global__ void load_fragments(const uint16_t* matrices, const int* row_of_lane, uint32_t* fragments) {
  uint16_t* shared = dynamic_shared<uint16_t>();
  const int l = static_cast<int>(threadIdx.x);
  for (int i = l; i < 256; i += 32) shared[i] = matrices[i];
  sync_warp();
  uint32_t out[4];
  load_matrices<kTransposed>(out, shared + 8 * row_of_lane[l]);
  for (int m = 0; m < 4; ++m) fragments[4 * l + m] = out[m];
}

/// "ldmatrix": rows come from the addresses of lanes 8 m ... 8 m + 7; a lane gets, of each matrix, the row
/// lane / 4, elements 2 * (lane % 4) and the next; with .trans the same of the transposed matrix.
TEST(TensorCore, LoadsMatricesAsThePtxIsaSays) {
  std::vector<uint16_t> rows(256);
  for (int i = 0; i < 256; ++i) rows[static_cast<size_t>(i)] = static_cast<uint16_t>(i * 201 + 7);
  std::vector<int> row_of_lane(32);
  for (int l = 0; l < 32; ++l) row_of_lane[static_cast<size_t>(l)] = l * 13 % 32;
  const DeviceArray<uint16_t> device_rows(rows);
  const DeviceArray<int> device_row_of_lane(row_of_lane);
  for (const bool transposed : {false, true}) {
    const DeviceArray<uint32_t> fragments(std::vector<uint32_t>(128));
    launch({.name = "load_fragments", .grid = 1, .block = 32, .shared_bytes = 512}, testing::cuda_stream(),
           transposed ? load_fragments<true> : load_fragments<false>, device_rows.data(),
           device_row_of_lane.data(), fragments.data());
    const std::vector<uint32_t> got = fragments.get(testing::cuda_stream());
    for (int l = 0; l < 32; ++l) {
      for (int m = 0; m < 4; ++m) {
        const auto element = [&](int r, int c) {
          return uint32_t{rows[static_cast<size_t>(8 * row_of_lane[static_cast<size_t>(8 * m + r)] + c)]};
        };
        const int r = l / 4;
        const int c = l % 4 * 2;
        const uint32_t expected =
            transposed ? element(c, r) | element(c + 1, r) << 16 : element(r, c) | element(r, c + 1) << 16;
        EXPECT_EQ(got[static_cast<size_t>(4 * l + m)], expected) << l << " " << m << " " << transposed;
      }
    }
  }
}

__global__ void read_too_early(const uint16_t* from, uint16_t* out) {
  uint16_t* shared = dynamic_shared<uint16_t>();
  const int l = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) shared[8 * l + i] = 9;
  async_copy_16(shared + 8 * l, from + 8 * l);
  async_commit();
  async_wait<1>();
  for (int i = 0; i < 8; ++i) out[8 * l + i] = shared[8 * l + i];
}

/// Neither are the copies there, nor what was there before.
TEST(AsyncCopies, AreNotThereBeforeTheWaitForTheirGroup) {
  const DeviceArray<uint16_t> from(std::vector<uint16_t>(256, 5));
  const DeviceArray<uint16_t> out(std::vector<uint16_t>(256));
  launch({.name = "read_too_early", .grid = 1, .block = 32, .shared_bytes = 512}, testing::cuda_stream(),
         read_too_early, from.data(), out.data());
  for (const uint16_t v : out.get(testing::cuda_stream())) EXPECT_EQ(v, 0xFFFFU);
}

}  // namespace
}  // namespace ventris::cuda
