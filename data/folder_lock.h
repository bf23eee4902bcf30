#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace ventris::data {

class FileHandle;

/// Holds a folder for one process: a lock of the system on the file `.lock` in it, which tells host and
/// process of the holder. The system lets go of it when the process ends, however it ends; the file stays. A
/// folder on a file system without locks is not held.
class FolderLock {
 public:
  /// Waits up to `patience` for another holder, which may be about to end. Throws DataError kCannotCreate,
  /// naming it, if it stays.
  explicit FolderLock(const std::string& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no locks.
  bool held() const { return held_; }

 private:
  std::unique_ptr<FileHandle> file_;
  bool held_ = false;
};

}  // namespace ventris::data
