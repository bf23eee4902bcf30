// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

// Private to data/.

namespace ventris::data {

class FileHandle;

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
  void keep();

  const std::string path_;
  const std::string text_;  // unique to this process
  const Times times_;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ventris::data
