// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "data/files/confined_process.h"
#include "data/files/file_io.h"

namespace ventris::data {

/// The separate process in which the HDF5 library reads files; Hdf5Reader needs one. Created once, at the
/// beginning of main, before MPI, CUDA and any thread: it has none of their state, one thread, no open file
/// of this process and little memory, so that it can fork a confined process for each file at any time
/// (data/files/confined_process.h). It ignores signals except SIGKILL and ends with the thread that created
/// it.
class Hdf5Process {
 public:
  /// `shown` is the memory from which the system shows the arguments and the environment of the program; the
  /// process writes its own name there, so that it is not mistaken for a rank. If no process can be created,
  /// list() reports it.
  explicit Hdf5Process(std::span<char> shown = {});
  ~Hdf5Process();
  Hdf5Process(const Hdf5Process&) = delete;
  Hdf5Process& operator=(const Hdf5Process&) = delete;

  /// The process of this program, the newest if there are several. Throws std::logic_error if main created
  /// none.
  static Hdf5Process& of_program();

  /// The listing of an open file of `bytes` bytes (list_hdf5). The descriptor replaces limits.input; the path
  /// is for messages. From any thread. Throws DataError kIo if the process is gone, and the errors of
  /// run_confined().
  ConfinedAnswer list(const std::string& path, int fd, int64_t bytes, const ConfinedLimits& limits);

  pid_t id() const { return id_; }

 private:
  Hdf5Process* before_;
  std::mutex mutex_;  // one file at a time
  FileHandle socket_;
  pid_t id_ = -1;
  std::string fault_;  // the reason if there is no process
};

}  // namespace ventris::data
