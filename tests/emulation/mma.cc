// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/mma.cuh"

#include <cstring>
#include <utility>
#include <vector>

#include "backend/cuda/intrinsics.cuh"

namespace ventris::cuda {
namespace {

struct Copy {
  void* to;
  const void* from;
  bool valid;
};
/// Asynchronous copies of a thread that are under way, oldest group first.
struct Groups {
  explicit Groups(uint64_t block) : block(block) {}
  uint64_t block;  // whose they are
  std::vector<Copy> open;
  std::vector<std::vector<Copy>> closed;
};
std::vector<Groups> copies_under_way(emulation::kMaxPlaces, Groups(0));

Groups& my_groups() {
  Groups& groups = copies_under_way[emulation::thread_place()];
  if (groups.block != emulation::block_number()) groups = Groups(emulation::block_number());
  return groups;
}

float low_half(uint32_t pair) {
  return from_bf16_bits(static_cast<uint16_t>(pair));
}
float high_half(uint32_t pair) {
  return from_bf16_bits(static_cast<uint16_t>(pair >> 16));
}

void check_alignment(const void* address, const char* what) {
  if (reinterpret_cast<uintptr_t>(address) % 16 != 0) {
    throw emulation::KernelFault(std::string(what) + " of an address that is no multiple of 16");
  }
}

}  // namespace

void async_copy_16(void* shared, const void* global, bool valid) {
  check_alignment(shared, "async_copy_16");
  check_alignment(global, "async_copy_16");
  std::memset(shared, 0xFF, 16);  // unknown until the wait: who still reads it finds out
  my_groups().open.push_back({shared, global, valid});
}

void async_commit() {
  Groups& groups = my_groups();
  groups.closed.push_back(std::exchange(groups.open, {}));
}

void async_wait_groups(int left) {
  Groups& groups = my_groups();
  while (groups.closed.size() > static_cast<size_t>(left)) {
    for (const Copy& copy : groups.closed.front()) {
      if (copy.valid) {
        std::memcpy(copy.to, copy.from, 16);
      } else {
        std::memset(copy.to, 0, 16);
      }
    }
    groups.closed.erase(groups.closed.begin());
  }
}

void load_matrices(uint32_t (&out)[4], const void* shared_row, bool transposed) {
  check_alignment(shared_row, "load_matrices");
  struct Row {
    uint16_t element[8];
  };
  Row row;
  std::memcpy(&row, shared_row, sizeof(row));
  const Given<Row> rows("load_matrices", row);
  const int g = emulation::lane() / 4;
  const int t = emulation::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const auto element = [&](int r, int c) { return uint32_t{rows[8 * m + r].element[c]}; };
    out[m] = transposed ? element(2 * t, g) | element(2 * t + 1, g) << 16
                        : element(g, 2 * t) | element(g, 2 * t + 1) << 16;
  }
}

void multiply_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Operands {
    uint32_t a[4];
    uint32_t b[2];
  };
  Operands mine;
  std::memcpy(mine.a, a, sizeof(a));
  std::memcpy(mine.b, b, sizeof(b));
  const Given<Operands> given("multiply_16x8x16", mine);
  const int g = emulation::lane() / 4;
  const int t = emulation::lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int half = i / 2;            // row g + 8 * half
    const int column = 2 * t + i % 2;  // of d, held as column / 4 .. in lanes 4 * column + k
    float sum = 0.0F;
    for (int k = 0; k < 16; k += 2) {
      const uint32_t left = given[4 * g + k % 8 / 2].a[half + 2 * (k / 8)];
      const uint32_t right = given[4 * column + k % 8 / 2].b[k / 8];
      sum += low_half(left) * low_half(right) + high_half(left) * high_half(right);
    }
    d[i] += sum;
  }
}

}  // namespace ventris::cuda
