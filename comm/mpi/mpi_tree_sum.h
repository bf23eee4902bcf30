// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <vector>

#include "comm/tree_sum.h"

namespace ventris {

/// Appends the requests of all messages, which have this tag.
void start_messages(const TreeMessages& messages, int tag, MPI_Comm comm, std::vector<MPI_Request>& requests);

/// A pending TreeSum of host memory; it makes progress when polled.
class MpiTreeSum {
 public:
  /// `tag` must not be used by another pending sum in `comm`. One is enough for all rounds, as messages
  /// between two ranks do not overtake each other.
  MpiTreeSum(MPI_Comm comm, const TreeSum& sum, int tag);

  /// Whether the sum is complete.
  bool test();

 private:
  void start_round(int round);

  MPI_Comm comm_;
  TreeSum sum_;
  int tag_;
  int round_ = 0;
  std::vector<MPI_Request> requests_;
};

}  // namespace ventris
