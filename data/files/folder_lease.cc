// SPDX-License-Identifier: Apache-2.0
#include "data/files/folder_lease.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <random>

#include "data/error.h"
#include "data/files/file_io.h"

namespace ventris::data {
namespace {

constexpr const char* kLeaseFile = "/.lease";

/// A lease as others see it; a renewal changes its time of modification.
struct Seen {
  bool there = false;
  std::string text;
  time_t seconds = 0;
  long nanoseconds = 0;

  bool operator==(const Seen&) const = default;
};

std::string text_in(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  return {text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0};
}

Seen look_at(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) return {};
  return {true, text_in(file.fd()), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::string first_line(const std::string& text) {
  return text.empty() ? "another process" : text.substr(0, text.find('\n'));
}

std::string with_random(const std::string& holder) {
  std::random_device random;
  return fmt::format("{}\n{:08x}{:08x}\n", holder, random(), random());
}

}  // namespace

FolderLease::FolderLease(const std::string& folder, const std::string& holder, const Times& times)
    : path_(folder + kLeaseFile), text_(with_random(holder)), times_(times) {
  take(folder);
  thread_ = std::thread([this] { keep(); });
}

FolderLease::~FolderLease() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  ends_.notify_all();
  thread_.join();
  if (look_at(path_).text == text_) ::unlink(path_.c_str());
}

void FolderLease::take(const std::string& folder) {
  Seen before;
  auto since = std::chrono::steady_clock::now();
  while (!make()) {
    const Seen now = look_at(path_);
    if (!now.there) continue;
    if (!before.there) {
      before = now;
      since = std::chrono::steady_clock::now();
    }
    if (now != before) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}, which renews its file .lease. "
           "Wait for the end of that run, or give another folder",
           folder, first_line(now.text));
    }
    if (std::chrono::steady_clock::now() - since > times_.stale_after) {
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

void FolderLease::keep() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_.wait_for(lock, times_.renewed_every, [this] { return over_; })) {
    lock.unlock();
    if (!renew()) lost_ = true;
    lock.lock();
  }
}

}  // namespace ventris::data
