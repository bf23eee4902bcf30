#pragma once

#include <mpi.h>

namespace ventris {

/// MPI's sum of bf16, which MPI has no type for: an operation on MPI_UINT16_T that adds two numbers in f32
/// and rounds to the nearest, ties to even. a + b and b + a have the same bits, also where one is NaN, so
/// that algorithms in which several ranks form the same sum come to the same bits. Lives between MPI's start
/// and end.
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
