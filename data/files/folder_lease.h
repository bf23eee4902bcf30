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

/// Holds a folder for one process where the file system has no locks: the file `.lease` in it, whose time of
/// modification a thread renews. It holds for other hosts too: ages are differences of times that the file
/// system itself gave, so that clocks need not agree. Unlike a lock it is not given up by a process that is
/// killed: others wait until it has not been renewed for long.
class FolderLease {
 public:
  struct Times {
    std::chrono::milliseconds renewed_every{5000};
    std::chrono::milliseconds stale_after{30000};
  };

  /// `holder`: what is told of this process. Waits for a lease that is not renewed to become stale. Throws
  /// DataError kCannotCreate, naming the holder, for one that is renewed meanwhile.
  FolderLease(const std::string& folder, const std::string& holder, const Times& times);
  /// Gives it up.
  ~FolderLease();
  FolderLease(const FolderLease&) = delete;
  FolderLease& operator=(const FolderLease&) = delete;

  /// Whether another process took the lease, since this one did not renew it for long, or someone removed it.
  /// From any thread.
  bool lost() const { return lost_; }

 private:
  void take(const std::string& folder);
  /// False where the file is there already.
  bool make() const;
  /// Whether the file holds the text of this process; then with the time of now.
  bool renew() const;
  void keep();

  const std::string path_;
  const std::string text_;  // of this process alone
  const Times times_;
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ventris::data
