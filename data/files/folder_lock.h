#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

namespace ventris::data {

class FileHandle;
class FolderLease;

/// Which file `.lock` of a folder is, by device and number: where it is another, or none, the folder at that
/// path was moved or replaced.
class FolderIdentity {
 public:
  /// Of the folder as it is now, or, where this process holds the folder at that path (FolderLock), as it was
  /// when it took it.
  explicit FolderIdentity(const std::string& folder);
  /// Of the folder in which that file, which is open, is .lock.
  FolderIdentity(const std::string& folder, int lock_file);
  /// Whether the folder at the path is still that one.
  bool holds() const;

 private:
  void take(const struct stat& status);

  std::string path_;  // of .lock
  dev_t device_ = 0;
  ino_t number_ = 0;  // 0: there is none
};

/// Holds a folder for one process: a lock of the system on the file `.lock` in it, which tells host and
/// process of the holder. The system lets go of it when the process ends, however it ends; the file stays. On
/// a file system without locks a lease that is renewed (data/files/folder_lease.h) takes its place.
/// While it is held, no file gets a name in another folder that has come to be at its path
/// (data/files/temporary_file.h).
class FolderLock {
 public:
  /// Waits up to `patience` for another holder, which may be about to end, or until its lease is stale.
  /// Throws DataError kCannotCreate, naming it, if it stays.
  explicit FolderLock(const std::string& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(10));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no locks; then why.
  bool held() const { return why_not_held_.empty(); }
  const std::string& why_not_held() const { return why_not_held_; }
  /// Throws DataError kIo, saying where the folder is now, unless the folder at its path is still the one
  /// that is held, and no other process took its lease. To be called before a name in it is written or
  /// removed. From any thread.
  void check() const;

 private:
  std::string folder_;
  std::unique_ptr<FileHandle> directory_;
  std::unique_ptr<FileHandle> file_;
  std::unique_ptr<FolderIdentity> identity_;
  std::unique_ptr<FolderLease> lease_;
  std::string why_not_held_;
};

/// Whether the folder at the path is the one that this process holds, or it holds none at that path.
bool is_held_or_free(const std::string& folder);

}  // namespace ventris::data
