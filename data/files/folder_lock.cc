// SPDX-License-Identifier: Apache-2.0
#include "data/files/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/files/file_io.h"
#include "data/files/folder_lease.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;

constexpr const char* kLockFile = "/.lock";

bool is_gone(int fd) {
  struct stat open {};
  return ::fstat(fd, &open) == 0 && open.st_nlink == 0;
}

/// Whether an open folder is the one at the path.
bool is_at(int fd, const std::string& path) {
  struct stat there {};
  struct stat open {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &there) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

/// The current path of an open folder, or "".
std::string path_now(int fd) {
  std::array<char, PATH_MAX> path{};
  const ssize_t bytes = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  const std::string now = bytes > 0 ? std::string(path.data(), static_cast<size_t>(bytes)) : "";
  return is_at(fd, now) ? now : "";
}

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

std::string holder(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  const std::string line(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return line.empty() ? "another process" : line.substr(0, line.find('\n'));
}

/// The folders that this process holds, by path.
class HeldFolders {
 public:
  void add(const std::string& folder, const FolderIdentity& identity) {
    const std::lock_guard lock(mutex_);
    folders_.emplace_back(normal(folder), identity);
  }
  void remove(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    const auto last = std::find_if(folders_.rbegin(), folders_.rend(),
                                   [&](const auto& held) { return held.first == normal(folder); });
    if (last != folders_.rend()) folders_.erase(std::next(last).base());
  }
  std::optional<FolderIdentity> find(const std::string& folder) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(folders_.begin(), folders_.end(),
                                    [&](const auto& held) { return held.first == normal(folder); });
    return found == folders_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static std::string normal(const std::string& folder) {
    return std::filesystem::path(folder + "/").lexically_normal().string();
  }

  std::mutex mutex_;
  std::vector<std::pair<std::string, FolderIdentity>> folders_;
};

HeldFolders& held_folders() {
  static HeldFolders held;
  return held;
}

}  // namespace

bool is_held_or_free(const std::string& folder) {
  const std::optional<FolderIdentity> held = held_folders().find(folder);
  return !held || held->holds();
}

FolderIdentity::FolderIdentity(const std::string& folder) : path_(folder + kLockFile) {
  if (const std::optional<FolderIdentity> held = held_folders().find(folder)) {
    *this = *held;
    return;
  }
  struct stat status {};
  if (::stat(path_.c_str(), &status) == 0) take(status);
}

FolderIdentity::FolderIdentity(const std::string& folder, int lock_file) : path_(folder + kLockFile) {
  struct stat status {};
  if (::fstat(lock_file, &status) == 0) take(status);
}

void FolderIdentity::take(const struct stat& status) {
  device_ = status.st_dev;
  number_ = status.st_ino;
}

bool FolderIdentity::holds() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return number_ == 0 && errno == ENOENT;
  return status.st_dev == device_ && status.st_ino == number_;
}

FolderLock::FolderLock(const std::string& folder, std::chrono::milliseconds patience,
                       const std::function<void(const std::string& holder)>& waits)
    : folder_(folder) {
  const std::string path = folder + kLockFile;
  directory_ = std::make_unique<FileHandle>(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  file_ = std::make_unique<FileHandle>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file_->valid() && (errno == EACCES || errno == EPERM)) {
    // Owned by another user of the group, and only readable for this one: that suffices for a lock.
    const int error = errno;
    *file_ = FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file_->valid()) errno = error;
  }
  if (!file_->valid()) {
    const int error = errno;
    fail(kind_of_creating(error), "{}: cannot be created: {}. The run folder must be writable", path,
         system_reason(error));
  }
  const auto begin = std::chrono::steady_clock::now();
  bool told = false;
  identity_ = std::make_unique<FolderIdentity>(folder, file_->fd());
  while (::flock(file_->fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      why_not_held_ = system_reason(errno);
      lease_ = std::make_unique<FolderLease>(folder, this_process(), FolderLease::Times());
      held_folders().add(folder, *identity_);
      return;
    }
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waits && !told && waited > 1s) {
      waits(holder(file_->fd()));
      told = true;
    }
    if (waited > patience) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}. Wait for the end of that run, or give another folder", folder,
           holder(file_->fd()));
    }
    std::this_thread::sleep_for(20ms);
  }
  held_folders().add(folder, *identity_);
  const std::string text = this_process() + "\n";
  // Only a message of another process depends on this.
  if (::ftruncate(file_->fd(), 0) == 0 && ::pwrite(file_->fd(), text.data(), text.size(), 0) < 0) return;
}

void FolderLock::check() const {
  if (lease_ && lease_->lost()) {
    fail(ErrorKind::kIo,
         "another process took the run folder {}, or its file .lease was removed: this run did not renew "
         "it for a long time, for example because it was stopped. Nothing more is written there",
         folder_);
  }
  if (identity_->holds()) return;
  const int fd = directory_->fd();
  if (is_gone(fd)) {
    fail(ErrorKind::kIo,
         "the run folder {} was removed with its checkpoints while this run used it. "
         "Nothing more is written there. The same command starts from the beginning",
         folder_);
  }
  if (is_at(fd, folder_)) {
    fail(ErrorKind::kIo,
         "the file .lock of the run folder {} was removed or replaced while this run used it, "
         "perhaps because the folder is being removed or another run starts there. "
         "Nothing more is written there. The same command resumes from the newest checkpoint that is left",
         folder_);
  }
  const std::string now = path_now(fd);
  fail(ErrorKind::kIo,
       "the run folder {} was moved, removed or replaced while this run used it. Nothing more is written "
       "there. {}The same command with the new path after --model-dir resumes from its newest checkpoint",
       folder_, now.empty() ? "" : fmt::format("The folder of this run is now {}. ", now));
}

FolderLock::~FolderLock() {
  held_folders().remove(folder_);
}

}  // namespace ventris::data
