// SPDX-License-Identifier: Apache-2.0
#include "data/files/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/error.h"
#include "data/files/file_io.h"
#include "data/files/folder_lease.h"
#include "data/files/temporary_name.h"

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
  return fmt::format("process {} on {}", ::getpid(), name_of_host());
}

FileHandle open_lock_file(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NOFOLLOW;
  FileHandle file(::open(path.c_str(), O_RDWR | O_CREAT | kFlags, 0666));
  const int error = errno;
  // One of another user of the group, which this one may only read: that suffices for a lock.
  if (!file.valid() && (error == EACCES || error == EPERM))
    file = FileHandle(::open(path.c_str(), O_RDONLY | kFlags));
  if (!file.valid()) {
    fail(kind_of_creating(error), "{}: cannot be created: {}. The run folder must be writable", path,
         system_reason(error));
  }
  return file;
}

std::string holder(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  const std::string line(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return line.empty() ? "another process" : line.substr(0, line.find('\n'));
}

std::string normal(const std::string& folder) {
  return std::filesystem::path(folder + "/").lexically_normal().string();
}

/// The locks of this process.
std::mutex held_mutex;
std::vector<const FolderLock*> held_locks;

/// The identity of a folder that this process holds.
std::optional<FolderIdentity> held_identity(const std::string& folder) {
  const std::lock_guard guard(held_mutex);
  for (const FolderLock* lock : held_locks) {
    if (normal(lock->folder()) == normal(folder)) return lock->identity();
  }
  return std::nullopt;
}

}  // namespace

bool is_held_or_free(const std::string& folder) {
  const std::optional<FolderIdentity> held = held_identity(folder);
  return !held || held->holds();
}

FolderIdentity::FolderIdentity(const std::string& folder) : path_(folder + kLockFile) {
  if (const std::optional<FolderIdentity> held = held_identity(folder)) {
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
    : folder_(folder),
      directory_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      file_(open_lock_file(folder + kLockFile)),
      identity_(folder, file_.fd()) {
  const auto begin = std::chrono::steady_clock::now();
  bool told = false;
  while (::flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      why_not_held_ = system_reason(errno);
      lease_ = std::make_unique<FolderLease>(folder, this_process(), FolderLease::Times());
      break;
    }
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waits && !told && waited > 1s) {
      waits(holder(file_.fd()));
      told = true;
    }
    if (waited > patience) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}. Wait for the end of that run, or give another folder", folder,
           holder(file_.fd()));
    }
    std::this_thread::sleep_for(20ms);
  }
  {
    const std::lock_guard guard(held_mutex);
    held_locks.push_back(this);
  }
  if (!held()) return;
  const std::string text = this_process() + "\n";
  // Only a message of another process depends on this.
  if (::ftruncate(file_.fd(), 0) == 0 && ::pwrite(file_.fd(), text.data(), text.size(), 0) < 0) return;
}

void FolderLock::check() const {
  if (lease_ && lease_->lost()) {
    fail(ErrorKind::kIo,
         "another process took the run folder {}, or its file .lease was removed: this run did not renew "
         "it for a long time, for example because it was stopped. Nothing more is written there",
         folder_);
  }
  if (identity_.holds()) return;
  const int fd = directory_.fd();
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
  const std::lock_guard guard(held_mutex);
  std::erase(held_locks, this);
}

}  // namespace ventris::data
