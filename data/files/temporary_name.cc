// SPDX-License-Identifier: Apache-2.0
#include "data/files/temporary_name.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "data/error.h"
#include "data/files/digest.h"
#include "data/files/file_io.h"

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";
constexpr size_t kRandomDigits = 16;

/// The name, or if it is too long for a suffix (limit: 255 bytes), its beginning and a digest.
std::string room_for_mark(const std::string& name) {
  constexpr size_t kMax = 150;
  constexpr size_t kDigits = 16;
  if (name.size() <= kMax) return name;
  Digest digest;
  digest.add(name.data(), name.size());
  return name.substr(0, kMax - kDigits - 1) + "~" + digest.hexadecimal().substr(0, kDigits);
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

uint64_t random_number() {
  uint64_t number = 0;
  if (::getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number))) {
    fail(ErrorKind::kIo, "the system provides no random numbers: {}", system_reason(errno));
  }
  return number;
}

/// The owner of a temporary file.
struct Owner {
  std::string of;  // the final name of the file
  std::string host;
  pid_t pid = 0;  // 0: not the name of a temporary file
};

bool is_random_part(std::string_view part) {
  return part.size() == kRandomDigits && part.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Owner owner_of(std::string name) {
  if (const size_t dot = name.rfind('.'); dot != std::string::npos && is_random_part(name.substr(dot + 1))) {
    name.resize(dot);
  }
  const size_t mark = name.rfind(kMark);
  const size_t dot = name.rfind('.');
  if (mark == std::string::npos || dot <= mark + kMark.size()) return {};
  Owner owner = {.of = name.substr(0, mark),
                 .host = name.substr(mark + kMark.size(), dot - mark - kMark.size())};
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + dot + 1, end, owner.pid);
  if (error != std::errc() || stop != end || owner.pid <= 0) return {};
  return owner;
}

enum class Mark { kSet, kNotSet, kUnknown };

Mark mark_of(const fs::path& path) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  FileHandle file(::open(path.c_str(), O_RDWR | kFlags));  // NFS locks only files open for writing
  if (!file.valid()) file = FileHandle(::open(path.c_str(), O_RDONLY | kFlags));
  if (!file.valid()) return Mark::kUnknown;
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) == 0) return Mark::kNotSet;
  return errno == EWOULDBLOCK ? Mark::kSet : Mark::kUnknown;
}

bool is_abandoned(const Owner& owner, const fs::path& path) {
  const Mark mark = mark_of(path);
  if (mark == Mark::kSet) return false;
  const bool gone =
      owner.host == host_name() && ::kill(owner.pid, 0) != 0 && errno == ESRCH;  // or in another container
  if (gone && mark == Mark::kNotSet) return true;
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

/// Paths of a folder that a process left behind and for whose final names `is_ours` is true.
std::vector<fs::path> abandoned_in(const std::string& folder,
                                   const std::function<bool(const std::string&)>& is_ours, bool alone) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const Owner owner = owner_of(entry->path().filename().string());
    if (owner.pid != 0 && is_ours(owner.of) && (alone || is_abandoned(owner, entry->path()))) {
      found.push_back(entry->path());
    }
  }
  return found;
}

}  // namespace

std::string temporary_name(const std::string& path) {
  const std::string name = without_folder(path);
  const std::string folder = path.substr(0, path.size() - name.size());
  return fmt::format("{}{}{}{}.{}.{:016x}", folder, room_for_mark(name), kMark, host_name(), ::getpid(),
                     random_number());
}

void mark_as_being_written(int fd) {
  static_cast<void>(::flock(fd, LOCK_EX | LOCK_NB));
}

std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone) {
  std::vector<std::string> removed;
  for (const fs::path& path : abandoned_in(folder, is_ours, alone)) {
    std::error_code error;
    const bool is_file = fs::symlink_status(path, error).type() == fs::file_type::regular;
    if (is_file && fs::remove(path, error)) removed.push_back(path.string());
  }
  return removed;
}

void remove_abandoned(const std::string& path) {
  const std::string name = room_for_mark(without_folder(path));
  const auto is_it = [&](const std::string& other) { return other == name; };
  for (const fs::path& found : abandoned_in(folder_of(path), is_it, /*alone=*/false)) {
    std::error_code error;
    const fs::file_type type = fs::symlink_status(found, error).type();
    if (type == fs::file_type::regular || type == fs::file_type::directory) fs::remove_all(found, error);
  }
}

}  // namespace ventris::data
