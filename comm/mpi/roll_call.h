#pragma once

#include <mpi.h>

#include <string>
#include <vector>

namespace ventris {

/// How ranks that wait in vain find out who does not: each sends a message to all others and listens for half
/// a second. A rank that waits answers; one that is stopped, hangs or computes does not. It comes before the
/// end of the job and happens once. Point-to-point messages with a tag of its own on `comm`, from the thread
/// that makes the other calls of MPI.
class RollCall {
 public:
  explicit RollCall(MPI_Comm comm) : comm_(comm) {}

  /// Whether another rank has called. Cheap.
  bool called() const;
  /// Calls, and returns for each rank whether it was heard; true for this one.
  std::vector<bool> call() const;

 private:
  MPI_Comm comm_;
};

struct RankPlace {
  std::string host;
  int pid = 0;
};

/// "rank 1 on a (pid 7, stopped), which did not arrive", of `places` by rank, for the ranks that are not
/// `present`; or that all came too late. What the system knows of a process is told of those on the host of
/// `mine`.
std::string describe_absent(const std::vector<bool>& present, const std::vector<RankPlace>& places, int mine);

}  // namespace ventris
