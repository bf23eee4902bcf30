// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/bf16_sum.h"

#include "backend/device/dtype.h"
#include "comm/mpi/check_mpi.h"

namespace ventris {
namespace {

constexpr uint16_t kNaN = 0x7FC0;

uint16_t bits_of_sum(BF16 a, BF16 b) {
  const float sum = static_cast<float>(a) + static_cast<float>(b);
  return sum == sum ? BF16(sum).bits : kNaN;
}

void add(void* from, void* to, int* count, MPI_Datatype*) {
  const auto* __restrict terms = static_cast<const BF16*>(from);
  auto* __restrict sums = static_cast<BF16*>(to);
#pragma omp simd
  for (int i = 0; i < *count; ++i) sums[i].bits = bits_of_sum(sums[i], terms[i]);
}

}  // namespace

Bf16Sum::Bf16Sum() {
  constexpr int kCommutes = 1;
  check_mpi(MPI_Op_create(add, kCommutes, &op_), "MPI_Op_create");
}

Bf16Sum::~Bf16Sum() {
  MPI_Op_free(&op_);
}

}  // namespace ventris
