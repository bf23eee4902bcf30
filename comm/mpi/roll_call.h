// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace ventris {

/// Finds the missing ranks after a timeout: each waiting rank sends a message to all others and listens for
/// two seconds, as ranks that wait for their devices give up within one second of each other. A rank that
/// waits answers; one that is stopped, hangs or computes does not. Happens once, before the end of the job.
/// Uses point-to-point messages with its own tag on `comm`, from the thread that makes the other calls of
/// MPI.
class RollCall {
 public:
  explicit RollCall(MPI_Comm comm) : comm_(comm) {}

  /// Whether another rank has sent its message. Cheap.
  bool called() const;
  /// Sends the messages, and returns for each rank whether it answered; true for this one.
  std::vector<bool> call() const;

 private:
  MPI_Comm comm_;
};

struct RankPlace {
  std::string host;
  int pid = 0;
};

/// "rank 1 on a (pid 7, stopped), which did not arrive", of `places` by rank, for the ranks that are not
/// `present`; "" if all are. Includes the state of processes on the host of `mine`.
std::string describe_missing_ranks(const std::vector<bool>& present, const std::vector<RankPlace>& places,
                                   int mine);

}  // namespace ventris
