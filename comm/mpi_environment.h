// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace ventris {

class Guard;

/// Limits on the calls that start and end MPI.
struct MpiLimits {
  double seconds = 300.0;  // 0: no limit
  /// The signal that requested a stop, or 0. If there is one while MPI starts, the process ends with
  /// kStopped. Called from another thread.
  std::function<int()> stop_signal = {};
};

/// MPI for the lifetime of the program, if built in; otherwise one rank. At most one object; created first in
/// main(). Initialises MPI only if the process was started by a launcher (mpirun, srun, PMIx: their
/// environment variables), so that a single process needs no MPI runtime. Thread level: MPI_THREAD_SERIALIZED
/// or better is required of a job of several ranks. If the start or the end of MPI exceeds the limit, one
/// rank reports it and the process ends with kUnavailable.
class MpiEnvironment {
 public:
  MpiEnvironment(int* argc, char*** argv, const MpiLimits& limits = {});
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  bool active() const { return active_; }  // MPI was initialised
  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }  // among the ranks of this host (MPI_Comm_split_type)
  int local_size() const { return local_size_; }
  const std::string& host() const { return host_; }
  /// Equal for ranks that share memory (MPI_Comm_split_type), and for no others: an identity of their host,
  /// as names need not differ. Ranks with different values of the environment variable NCCL_HOSTID count as
  /// on different hosts.
  const std::string& shared_memory() const { return shared_memory_; }
  /// Cores of the affinity mask of this process, each divided by the number of ranks of the host whose masks
  /// contain it; at least 1.
  int core_share() const { return core_share_; }
  /// Limits a call of MPI, named `call`, during the lifetime of the result.
  std::unique_ptr<Guard> guard(const char* call) const;
  /// The thread level that MPI provides, e.g. "MPI_THREAD_SERIALIZED"; "" if it is not active.
  const std::string& thread_level() const { return thread_level_; }
  /// Ends all ranks of the job with `code`; does not return.
  [[noreturn]] void abort(int code) const;

 private:
  MpiLimits limits_;
  bool active_ = false;
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int core_share_ = 1;
  std::string host_;
  std::string shared_memory_;
  std::string thread_level_;
};

/// The MPI library with its version, or a text that it is missing.
std::string mpi_library();

}  // namespace ventris
