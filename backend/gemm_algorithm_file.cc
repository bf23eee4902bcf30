// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm_algorithm_file.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

namespace ventris {
namespace {

constexpr const char* kMagic = "ventris cuBLASLt algorithms 1";

/// FNV-1a, which detects a damaged line.
uint64_t digest(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return hash;
}

std::string line_of(const std::string& shape, const GemmAlgorithm& algorithm) {
  std::string line = shape + '\t';
  for (const uint64_t word : algorithm) line += fmt::format("{:016x}", word);
  return line + fmt::format("\t{:016x}", digest(line));
}

/// Parses a line that line_of() wrote; false if it is not one.
bool read_line(const std::string& line, std::string& shape, GemmAlgorithm& algorithm) {
  const size_t end = line.find('\t');
  constexpr size_t kHex = 16;
  if (end == std::string::npos || line.size() != end + 1 + (algorithm.size() + 1) * kHex + 1) return false;
  shape = line.substr(0, end);
  for (size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::strtoull(line.substr(end + 1 + i * kHex, kHex).c_str(), nullptr, 16);
  }
  return line == line_of(shape, algorithm);
}

/// Holds the lock of a file during its lifetime; continues without it if the file system has no locks or
/// others hold it for two seconds.
class Lock {
 public:
  explicit Lock(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644)) {
    constexpr int kTries = 100;
    for (int i = 0; file_ >= 0 && i < kTries && flock(file_, LOCK_EX | LOCK_NB) != 0; ++i) {
      if (errno != EWOULDBLOCK && errno != EINTR) break;  // some network file systems have none
      usleep(20000);
    }
  }
  ~Lock() {
    if (file_ >= 0) close(file_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int file_;
};

}  // namespace

std::string cache_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  if (const std::string own = variable("VENTRIS_CACHE_DIR"); !own.empty()) return own;
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/ventris";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/ventris";
  return "";
}

GemmAlgorithmFile::GemmAlgorithmFile(const std::string& folder, const std::string& identity)
    : folder_(folder), identity_(identity) {
  if (folder.empty()) return;
  std::string name = "gemm-";
  for (const char c : identity)
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' ? c : '-';
  path_ = folder + '/' + name + ".txt";
  load();
}

/// False if the text is of another kind or identity.
bool GemmAlgorithmFile::read(std::istream& from, std::map<std::string, GemmAlgorithm>& to) const {
  std::string line;
  if (!std::getline(from, line) || line != kMagic || !std::getline(from, line) || line != identity_)
    return false;
  std::string shape;
  GemmAlgorithm algorithm{};
  while (std::getline(from, line)) {
    if (read_line(line, shape, algorithm)) to.insert_or_assign(shape, algorithm);
  }
  return true;
}

void GemmAlgorithmFile::load() {
  std::ifstream file(path_);
  read(file, algorithms_);
}

bool GemmAlgorithmFile::take(const std::string& text) {
  std::istringstream lines(text);
  return read(lines, taken_);
}

std::string GemmAlgorithmFile::text_of(const std::map<std::string, GemmAlgorithm>& algorithms) const {
  std::string text = fmt::format("{}\n{}\n", kMagic, identity_);
  for (const auto& [shape, algorithm] : algorithms) text += line_of(shape, algorithm) + '\n';
  return text;
}

void GemmAlgorithmFile::save() {
  const std::string text = text_of(algorithms_);
  // A name that others cannot predict, and no file that they created: they may share the folder.
  uint64_t number = 0;
  static_cast<void>(getrandom(&number, sizeof(number), 0));
  const std::string temporary = fmt::format("{}.{:016x}.tmp", path_, number);
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  written = file >= 0 && close(file) == 0 && written;
  if (!written || std::rename(temporary.c_str(), path_.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    if (file >= 0) static_cast<void>(std::remove(temporary.c_str()));
    tell(why);
  }
}

void GemmAlgorithmFile::tell(const std::string& why) {
  if (!told_) {
    fmt::print(stderr,
               "note: the chosen GEMM algorithms cannot be saved in {} ({}); a later run may choose others, "
               "and then differ in the last bits. VENTRIS_CACHE_DIR sets another folder\n",
               path_, why);
  }
  told_ = true;
}

std::optional<GemmAlgorithm> GemmAlgorithmFile::find(const std::string& shape) const {
  for (const auto* algorithms : {&taken_, &algorithms_}) {
    const auto found = algorithms->find(shape);
    if (found != algorithms->end()) return found->second;
  }
  return std::nullopt;
}

GemmAlgorithm GemmAlgorithmFile::add(const std::string& shape, const GemmAlgorithm& algorithm) {
  if (path_.empty()) return algorithms_.insert_or_assign(shape, algorithm).first->second;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const Lock lock(path_ + ".lock");
  load();  // lines that other processes have added
  const auto [place, added] = algorithms_.try_emplace(shape, algorithm);
  if (added) save();
  return place->second;
}

}  // namespace ventris
