// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "data/io/file_io.h"

namespace ventris::data {

/// The identity of the file `.lock` of a folder, by device and inode: if it is another or missing, the folder
/// at that path was moved or replaced.
class FolderIdentity {
 public:
  /// That of the current folder or, if this process holds the folder at that path (FolderLock), that at the
  /// time it was locked; of an open `lock_file`, if one is given.
  explicit FolderIdentity(const std::string& folder, int lock_file = -1);
  /// Whether the folder at the path is still the same.
  bool holds() const;

 private:
  std::string path_;  // of .lock
  dev_t device_ = 0;
  ino_t number_ = 0;  // 0: none
};

/// Holds a folder for one process on a file system without locks: by the file `.lease` in it, whose
/// modification time a thread renews. It also excludes other hosts: they watch whether it is renewed, so that
/// clocks need not agree. Unlike a lock it is not released when the process is killed: others wait until they
/// have seen no renewal for a while.
class FolderLease {
 public:
  struct Times {
    std::chrono::milliseconds renewed_every{5000};
    std::chrono::milliseconds stale_after{30000};
  };

  /// `holder`: the description of this process for others. Waits for an existing lease to become stale.
  /// Throws DataError kCannotCreate, naming the holder, if it is renewed meanwhile.
  FolderLease(const std::string& folder, const std::string& holder, const Times& times);
  /// Releases the lease.
  ~FolderLease();
  FolderLease(const FolderLease&) = delete;
  FolderLease& operator=(const FolderLease&) = delete;

  /// Whether another process took the lease, because it was not renewed in time, or it was removed. From any
  /// thread.
  bool lost() const { return lost_; }

 private:
  void take(const std::string& folder);
  /// False if the file already exists.
  bool make() const;
  /// Whether the file holds the text of this process; if so, sets its time to now.
  bool renew() const;

  const std::string path_;
  const std::string text_;  // unique to this process
  const Times times_;
  std::atomic<bool> lost_ = false;
  std::jthread thread_;  // the last: it uses the others
};

/// Holds a folder for one process: a system lock on the file `.lock` in it, which contains host and process
/// id of the holder. The system releases it when the process ends in any way; the file stays. On a file
/// system without locks a renewed lease is used instead. While it is held, no file is renamed into another
/// folder that has replaced it at its path (data/io/atomic_file.h).
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
  std::optional<FolderLease> lease_;
  std::string why_not_held_;
};

/// Whether the folder at the path is the one that this process holds; true if it holds none at that path.
bool is_held_or_free(const std::string& folder);

}  // namespace ventris::data
