#include "data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>

#include "data/error.h"
#include "data/file_io.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}\n", ::getpid(), host.data());
}

std::string holder(int fd) {
  std::array<char, 512> text{};
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), 0);
  const std::string line(text.data(), bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return line.empty() ? "another process" : line.substr(0, line.find('\n'));
}

}  // namespace

FolderLock::FolderLock(const std::string& folder, std::chrono::milliseconds patience) {
  const std::string path = folder + "/.lock";
  file_ = std::make_unique<FileHandle>(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file_->valid()) {
    fail(ErrorKind::kCannotCreate, "{}: cannot be made: {}. The run folder must be one that can be written",
         path, system_reason(errno));
  }
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(file_->fd(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // no locks here
    if (std::chrono::steady_clock::now() - begin > patience) {
      fail(ErrorKind::kCannotCreate,
           "the folder {} is in use by {}. Wait for the end of that run, or give another folder", folder,
           holder(file_->fd()));
    }
    std::this_thread::sleep_for(20ms);
  }
  held_ = true;
  const std::string text = this_process();
  // Only a message of another process is at stake.
  if (::ftruncate(file_->fd(), 0) == 0 && ::pwrite(file_->fd(), text.data(), text.size(), 0) < 0) return;
}

FolderLock::~FolderLock() = default;

}  // namespace ventris::data
