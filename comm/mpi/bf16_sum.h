// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace ventris {

/// MPI sum of bf16, for which MPI has no type: an operation on MPI_UINT16_T that adds two numbers in f32 and
/// rounds to the nearest, ties to even. a + b and b + a have the same bits, also if one is NaN, so that
/// algorithms in which several ranks compute the same sum give the same bits. Must be used between MPI's
/// start and end.
class Bf16Sum {
 public:
  Bf16Sum();
  ~Bf16Sum();
  Bf16Sum(const Bf16Sum&) = delete;
  Bf16Sum& operator=(const Bf16Sum&) = delete;
  MPI_Op get() const { return op_; }

 private:
  MPI_Op op_ = MPI_OP_NULL;
};

}  // namespace ventris
