// SPDX-License-Identifier: Apache-2.0
// What kernels keep in shared memory, by how much of it a multiprocessor has: results are the same.
#include <gtest/gtest.h>

#include "backend/cuda/resident_blocks.h"
#include "backend/device/context_cuda.h"
#include "tests/emulation/controls.h"
#include "tests/emulation/device_buffer.h"
#include "tests/support/attention_operands.h"

namespace ventris::testing {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kOf80 = 164 * kKiB;  // by compute capability: "Technical Specifications" of CUDA's guide
constexpr size_t kOf89 = 100 * kKiB;  // also 8.6 and 12.0
constexpr size_t kOf90 = 228 * kKiB;  // also 10.0

TEST(CudaSharedMemory, ABlockIsNotLeftAlone) {
  struct Row {
    size_t processor, all, less;
    bool keeps_less;
  };
  constexpr size_t kAttention64 = 55296;  // bytes of the tiles of a head of 64 columns; 128 columns
  constexpr size_t kAttention64Less = 46080;
  constexpr size_t kAttention128 = 88064;
  constexpr size_t kAttention128Less = 78848;
  constexpr size_t kRow = size_t{2} * 37000;  // logits of base in bf16
  constexpr Row kRows[] = {
      {kOf90, kAttention64, kAttention64Less, false},
      {kOf80, kAttention64, kAttention64Less, false},
      {kOf89, kAttention64, kAttention64Less, true},
      {kOf90, kAttention128, kAttention128Less, false},
      {kOf80, kAttention128, kAttention128Less, true},
      {kOf89, kAttention128, kAttention128Less, false},  // one block either way
      {kOf90, kRow, 0, false},
      {kOf80, kRow, 0, false},
      {kOf89, kRow, 0, true},
      {kOf90, 2 * kRow, 0, true},               // f32
      {kOf90, 4 * kRow, 0, true},               // more than there is
      {kOf90, kOf90 / 2 - 2 * kKiB, 0, false},  // two blocks, to the last byte
      {kOf90, kOf90 / 2 - 2 * kKiB + 1, 0, true},
      {kOf89, 0, 0, false},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(keeps_less(row.processor, row.all, row.less), row.keeps_less)
        << row.all << " bytes of " << row.processor;
  }
  EXPECT_EQ(resident_blocks(kOf90, kRow), 3U);
  EXPECT_EQ(resident_blocks(kOf89, kAttention64Less), 2U);
}

/// Gives the device of cuda_context() so much shared memory for a multiprocessor, while it lives.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) {
    emulation::machine().shared_bytes = bytes;
    cuda_context().cuda().shared_bytes = bytes;
  }
  ~SharedMemory() {
    emulation::machine() = before_;
    cuda_context().cuda().shared_bytes = before_.shared_bytes;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

 private:
  const emulation::Machine before_ = emulation::machine();
};

int64_t launches_with_less() {
  return emulation::launches()["gradients_in_less_memory"];
}

TEST(CudaSharedMemory, AttentionHasTheSameGradients) {
  struct Way {
    size_t processor;
    int64_t d_head;
  };
  for (const Way& way : {Way{kOf89, 64}, Way{kOf80, 128}}) {
    for (const bool causal : {true, false}) {
      for (const std::vector<int>& keys : {std::vector<int>{}, {5, 64, 130, 17, 0, 40, 90}}) {
        if (causal && !keys.empty()) continue;
        SCOPED_TRACE(::testing::Message() << way.d_head << (causal ? " causal" : "") << keys.size());
        const AttentionShape shape{{130, 20, 5, 64, 33, 0, 100}, keys, 3, way.d_head, causal};
        AttentionOperands all(shape, DType::kBF16, 0.3F);
        AttentionOperands less(shape, DType::kBF16, 0.3F);
        const int64_t before = launches_with_less();
        {
          const SharedMemory much(kOf90);
          all.run();
          EXPECT_EQ(launches_with_less(), before);
        }
        {
          const SharedMemory little(way.processor);
          less.run();
          EXPECT_EQ(launches_with_less(), before + 1);
          less.expect_matches(less.reference());
        }
        less.expect_same_bits_as(all);
      }
    }
  }
}

}  // namespace
}  // namespace ventris::testing
