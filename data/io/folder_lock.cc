// SPDX-License-Identifier: Apache-2.0
#include "data/io/folder_lock.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <random>
#include <vector>

#include "data/error.h"
#include "data/io/temporary_name.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kLockFile = "/.lock";
constexpr const char* kLeaseFile = "/.lease";

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

std::string text_in(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  return {text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0};
}

/// The holder that a lock or lease names.
std::string holder_in(const std::string& text) {
  return text.empty() ? "another process" : text.substr(0, text.find('\n'));
}

/// A lease as others see it; a renewal changes its time of modification.
struct Seen {
  bool there = false;
  std::string text;
  time_t seconds = 0;
  long nanoseconds = 0;

  bool operator==(const Seen&) const = default;
};

Seen look_at(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) return {};
  return {true, text_in(file.fd()), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::string with_random(const std::string& holder) {
  std::random_device random;
  return fmt::format("{}\n{:08x}{:08x}\n", holder, random(), random());
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

FolderIdentity::FolderIdentity(const std::string& folder, int lock_file) : path_(folder + kLockFile) {
  const bool given = lock_file >= 0;
  if (const std::optional<FolderIdentity> held = given ? std::nullopt : held_identity(folder)) {
    *this = *held;
    return;
  }
  struct stat status {};
  if ((given ? ::fstat(lock_file, &status) : ::stat(path_.c_str(), &status)) != 0) return;
  device_ = status.st_dev;
  number_ = status.st_ino;
}

bool FolderIdentity::holds() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return number_ == 0 && errno == ENOENT;
  return status.st_dev == device_ && status.st_ino == number_;
}

FolderLease::FolderLease(const std::string& folder, const std::string& holder, const Times& times)
    : path_(folder + kLeaseFile), text_(with_random(holder)), times_(times) {
  take(folder);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any ends;
    std::unique_lock lock(mutex);
    while (!ends.wait_for(lock, stop, times_.renewed_every, [&] { return stop.stop_requested(); })) {
      if (!renew()) lost_ = true;
    }
  });
}

FolderLease::~FolderLease() {
  thread_.request_stop();
  thread_.join();
  if (look_at(path_).text == text_) ::unlink(path_.c_str());
}

void FolderLease::take(const std::string& folder) {
  Seen before;
  auto since = Clock::now();
  while (!make()) {
    const Seen now = look_at(path_);
    if (!now.there) continue;
    if (!before.there) {
      before = now;
      since = Clock::now();
    }
    if (now != before) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}, which renews its file .lease. "
           "Wait for the end of that run, or give another folder",
           folder, holder_in(now.text));
    }
    if (Clock::now() - since > times_.stale_after) {
      ::unlink(path_.c_str());
    } else {
      std::this_thread::sleep_for(times_.renewed_every / 4);
    }
  }
}

bool FolderLease::make() const {
  const FileHandle file(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.valid() && errno == EEXIST) return false;
  const std::string reason = file.valid()
                                 ? write_all(file.fd(), text_.data(), static_cast<int64_t>(text_.size()), 0)
                                 : system_reason(errno);
  if (reason.empty()) return true;
  if (file.valid()) ::unlink(path_.c_str());
  fail(ErrorKind::kCannotCreate, "{}: cannot be written: {}", path_, reason);
}

bool FolderLease::renew() const {
  const FileHandle file(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return errno != ENOENT;  // a failing disk is not another holder
  if (text_in(file.fd()) != text_) return false;
  ::futimens(file.fd(), nullptr);
  return true;
}

FolderLock::FolderLock(const std::string& folder, std::chrono::milliseconds patience,
                       const std::function<void(const std::string& holder)>& waits)
    : folder_(folder),
      directory_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      file_(open_lock_file(folder + kLockFile)),
      identity_(folder, file_.fd()) {
  const auto begin = Clock::now();
  bool told = false;
  while (::flock(file_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {
      why_not_held_ = system_reason(errno);
      lease_.emplace(folder, this_process(), FolderLease::Times());
      break;
    }
    const auto waited = Clock::now() - begin;
    if (waits && !told && waited > 1s) {
      waits(holder_in(text_in(file_.fd())));
      told = true;
    }
    if (waited > patience) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}. Wait for the end of that run, or give another folder", folder,
           holder_in(text_in(file_.fd())));
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
  struct stat open {};
  if (::fstat(fd, &open) == 0 && open.st_nlink == 0) {
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
