#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "data/files/confined_process.h"
#include "data/files/file_io.h"

namespace ventris::data {

/// The process apart in which the HDF5 library meets files: Hdf5Reader needs one. Made once, at the beginning
/// of main, before MPI, CUDA and any thread: it holds nothing of theirs, has one thread, no file of this
/// process and little memory, so that it may fork a confined process for each file at any time
/// (data/files/confined_process.h). It is deaf to signals but SIGKILL and ends with the thread that made it.
class Hdf5Process {
 public:
  /// `shown` is the memory from which the system shows the words and the environment of the program, so that
  /// the process has a name of its own in it and is not taken for a rank. Where no process can be made,
  /// list() tells so.
  explicit Hdf5Process(std::span<char> shown = {});
  ~Hdf5Process();
  Hdf5Process(const Hdf5Process&) = delete;
  Hdf5Process& operator=(const Hdf5Process&) = delete;

  /// The one of this program, the newest where there are several. Throws std::logic_error where main made
  /// none.
  static Hdf5Process& of_program();

  /// The listing of an open file of `bytes` bytes (list_hdf5). The descriptor takes the place of
  /// limits.input; the path is for messages. From any thread. Throws DataError kIo where the process is gone,
  /// and what run_confined() throws.
  ConfinedAnswer list(const std::string& path, int fd, int64_t bytes, const ConfinedLimits& limits);

  pid_t id() const { return id_; }

 private:
  Hdf5Process* before_;
  std::mutex mutex_;  // one file at a time
  FileHandle socket_;
  pid_t id_ = -1;
  std::string fault_;  // why there is no process
};

}  // namespace ventris::data
