#pragma once

#include <mpi.h>

#include <vector>

#include "comm/tree_sum.h"

namespace ventris {

/// A TreeSum of memory of the host that is under way: it goes on when it is asked.
class MpiTreeSum {
 public:
  /// `tag` and the one after it are those of no other sum under way in `comm`.
  MpiTreeSum(MPI_Comm comm, const TreeSum& sum, int tag);

  /// Whether the sum is complete.
  bool test();

 private:
  void exchange(const TreeMessages& messages, int tag);

  MPI_Comm comm_;
  TreeSum sum_;
  int tag_;
  bool added_ = false;
  std::vector<MPI_Request> requests_;
};

}  // namespace ventris
