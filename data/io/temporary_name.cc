// SPDX-License-Identifier: Apache-2.0
#include "data/io/temporary_name.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <regex>

#include "data/error.h"
#include "data/io/digest.h"
#include "data/io/file_io.h"

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

/// The name, or if it is too long for a suffix (limit: 255 bytes), its beginning and a digest.
std::string room_for_mark(const std::string& name) {
  constexpr size_t kMax = 150;
  constexpr size_t kDigits = 16;
  if (name.size() <= kMax) return name;
  Digest digest;
  digest.add(name.data(), name.size());
  return name.substr(0, kMax - kDigits - 1) + "~" + digest.hexadecimal().substr(0, kDigits);
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

bool is_abandoned(const std::string& host, pid_t pid, const fs::path& path) {
  const Mark mark = mark_of(path);
  if (mark == Mark::kSet) return false;
  const bool gone =
      host == name_of_host() && ::kill(pid, 0) != 0 && errno == ESRCH;  // or in another container
  if (gone && mark == Mark::kNotSet) return true;
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

}  // namespace

std::string temporary_name(const std::string& path) {
  const std::string name = without_folder(path);
  const std::string folder = path.substr(0, path.size() - name.size());
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random)))
    fail(ErrorKind::kIo, "the system provides no random numbers: {}", system_reason(errno));
  return fmt::format("{}{}.tmp.{}.{}.{:016x}", folder, room_for_mark(name), name_of_host(), ::getpid(),
                     random);
}

std::string name_of_host() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

void mark_as_being_written(int fd) {
  static_cast<void>(::flock(fd, LOCK_EX | LOCK_NB));
}

std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone) {
  static const std::regex temporary(
      R"((.*)\.tmp\.(.+)\.([1-9][0-9]{0,8})\.[0-9a-f]{16})");  // the name, HOST, PID
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    std::smatch parts;
    if (std::regex_match(name, parts, temporary) && is_ours(parts[1]) &&
        (alone || is_abandoned(parts[2], std::stoi(parts[3]), entry->path())))
      found.push_back(entry->path());
  }
  std::vector<std::string> removed;
  for (const fs::path& path : found) {
    const fs::file_type type = fs::symlink_status(path, error).type();
    if (type != fs::file_type::regular && type != fs::file_type::directory) continue;
    fs::remove_all(path, error);
    if (!error) removed.push_back(path);
  }
  return removed;
}

void remove_abandoned(const std::string& path) {
  const std::string name = room_for_mark(without_folder(path));
  remove_abandoned_files(
      folder_of(path), [&](const std::string& other) { return other == name; }, /*alone=*/false);
}

}  // namespace ventris::data
