// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "data/files/file_io.h"

namespace ventris::data {

class FolderLease;

/// The identity of the file `.lock` of a folder, by device and inode: if it is another or missing, the folder
/// at that path was moved or replaced.
class FolderIdentity {
 public:
  /// That of the current folder or, if this process holds the folder at that path (FolderLock), that at the
  /// time it was locked.
  explicit FolderIdentity(const std::string& folder);
  /// That of the folder in which this open file is .lock.
  FolderIdentity(const std::string& folder, int lock_file);
  /// Whether the folder at the path is still the same.
  bool holds() const;

 private:
  void take(const struct stat& status);

  std::string path_;  // of .lock
  dev_t device_ = 0;
  ino_t number_ = 0;  // 0: none
};

/// Holds a folder for one process: a system lock on the file `.lock` in it, which contains host and process
/// id of the holder. The system releases it when the process ends in any way; the file stays. On a file
/// system without locks a renewed lease (data/files/folder_lease.h) is used instead. While it is held, no
/// file is renamed into another folder that has replaced it at its path (data/files/atomic_file.h).
class FolderLock {
 public:
  static constexpr std::chrono::seconds kPatience{10};

  /// Waits up to `patience` for another holder, which may be about to end, or until its lease is stale.
  /// Throws DataError kCannotCreate, naming the holder, if it remains. `waits`: called with the holder of the
  /// lock once the wait for it has lasted a second.
  explicit FolderLock(const std::string& folder, std::chrono::milliseconds patience = kPatience,
                      const std::function<void(const std::string& holder)>& waits = {});
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False if the file system has no locks; sets the reason.
  bool held() const { return why_not_held_.empty(); }
  const std::string& why_not_held() const { return why_not_held_; }
  /// Throws DataError kIo, saying where the folder is now, unless the folder at its path is still the held
  /// one, and no other process took its lease. Must be called before a name in it is written or removed. From
  /// any thread.
  void check() const;
  const std::string& folder() const { return folder_; }
  const FolderIdentity& identity() const { return identity_; }

 private:
  std::string folder_;
  FileHandle directory_;
  FileHandle file_;
  FolderIdentity identity_;
  std::unique_ptr<FolderLease> lease_;
  std::string why_not_held_;
};

/// Whether the folder at the path is the one that this process holds; true if it holds none at that path.
bool is_held_or_free(const std::string& folder);

}  // namespace ventris::data
