// SPDX-License-Identifier: Apache-2.0
#include "launch/leftovers.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "comm/affinity.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSharedMemory = "/dev/shm";
constexpr const char* kSegment = "vader_segment.";
constexpr const char* kSession = "pid.";
constexpr std::chrono::milliseconds kSecondLook{100};

bool is_ours(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && status.st_uid == ::geteuid();
}

std::vector<fs::path> entries(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix) && is_ours(entry->path()))
      found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct InUse {
  std::set<std::string> segments;  // that some process maps
  std::set<std::string> jobs;      // that some process belongs to, as in names of segments
};

// Of Open MPI 4 and 5, in the environment of a rank: the number that names of segments have in hexadecimal.
std::string job_of(const fs::path& process) {
  const std::string mark = "PMIX_NAMESPACE=";
  std::ifstream file(process / "environ");
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(mark))
      return fmt::format("{:x}", std::strtoul(entry.c_str() + mark.size(), nullptr, 10));
  }
  return "";
}

// A rank that ends unmaps its segment before it removes it.
InUse look_at_processes() {
  InUse found;
  const std::string mark = std::string(kSharedMemory) + "/" + kSegment;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string name = process->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream maps(process->path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t begin = line.find(mark);
      if (begin != std::string::npos) found.segments.insert(line.substr(begin));
    }
    if (std::string job = job_of(process->path()); !job.empty()) found.jobs.insert(std::move(job));
  }
  return found;
}

// The third of the four parts behind the mark, "vader_segment.HOST.USER.JOB.RANK": a host's name may have
// dots.
std::string job_in(const fs::path& segment) {
  const std::string name = segment.filename().string();
  const size_t rank = name.rfind('.');
  const size_t job = rank == 0 ? std::string::npos : name.rfind('.', rank - 1);
  return job == std::string::npos ? "" : name.substr(job + 1, rank - job - 1);
}

std::vector<fs::path> unused_segments() {
  std::vector<fs::path> found = entries(kSharedMemory, kSegment);
  if (found.empty()) return {};
  const InUse in_use = look_at_processes();
  std::erase_if(found, [&](const fs::path& path) {
    return in_use.segments.contains(path.string()) || in_use.jobs.contains(job_in(path));
  });
  return found;
}

std::vector<fs::path> sessions_of_the_gone() {
  const char* folder = nullptr;
  for (const char* variable : {"TMPDIR", "TEMP", "TMP"}) {
    if (folder == nullptr) folder = std::getenv(variable);
  }
  const std::string host = host_name();
  const fs::path temporary(folder == nullptr ? "/tmp" : folder);
  // Open MPI shortens the name of the host at the first dot.
  const fs::path sessions = temporary / fmt::format("ompi.{}.{}", host.substr(0, host.find('.')),
                                                    static_cast<unsigned>(::geteuid()));
  std::vector<fs::path> found = entries(sessions, kSession);
  std::erase_if(found, [](const fs::path& path) {
    const std::string number = path.filename().string().substr(std::string(kSession).size());
    const int process = std::atoi(number.c_str());
    return process <= 0 || ::kill(process, 0) == 0 || errno != ESRCH;
  });
  return found;
}

}  // namespace

std::vector<std::string> remove_leftovers_of_jobs() {
  std::vector<fs::path> left = unused_segments();
  if (!left.empty()) {
    std::this_thread::sleep_for(kSecondLook);
    const std::vector<fs::path> again = unused_segments();
    std::erase_if(
        left, [&](const fs::path& path) { return !std::binary_search(again.begin(), again.end(), path); });
  }
  for (const fs::path& session : sessions_of_the_gone()) left.push_back(session);
  std::vector<std::string> removed;
  for (const fs::path& path : left) {
    std::error_code error;
    if (fs::remove_all(path, error) > 0 && !error) removed.push_back(path);
  }
  return removed;
}

}  // namespace ventris
