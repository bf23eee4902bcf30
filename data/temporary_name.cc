#include "data/temporary_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

/// Whose a temporary file is.
struct Owner {
  std::string of;  // the name that the file was to get
  std::string host;
  pid_t pid = 0;  // 0: the name is none of a temporary file
};

Owner owner_of(const std::string& name) {
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

bool is_abandoned(const Owner& owner, const fs::path& path) {
  if (owner.host == host_name()) return ::kill(owner.pid, 0) != 0 && errno == ESRCH;
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return fmt::format("{}{}{}.{}", path, kMark, host_name(), ::getpid());
}

std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone) {
  std::vector<std::string> removed;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const Owner owner = owner_of(entry.path().filename().string());
    std::error_code ignored;
    if (owner.pid == 0 || !is_ours(owner.of) || !entry.is_regular_file(ignored) ||
        !(alone || is_abandoned(owner, entry.path()))) {
      continue;
    }
    if (fs::remove(entry.path(), ignored)) removed.push_back(entry.path().string());
  }
  return removed;
}

}  // namespace ventris::data
