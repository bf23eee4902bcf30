// SPDX-License-Identifier: Apache-2.0
#include "comm/guard.h"

#include <fmt/core.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>
#include <vector>

namespace ventris {

std::optional<Process> process_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');  // empty if the process ends now; iterators of a stream would throw
  // The second field may hold anything in parentheses.
  const size_t name_begin = text.find('(');
  const size_t name_end = text.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return std::nullopt;
  char state = 0;
  int parent = 0;
  if (std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) != 2) return std::nullopt;
  return Process{
      .parent = parent, .name = text.substr(name_begin + 1, name_end - name_begin - 1), .state = state};
}

namespace {

constexpr std::chrono::milliseconds kLook{100};
constexpr size_t kMaxNamed = 8;

std::string content_of(const std::filesystem::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // empty if the process ends now; iterators of a stream would throw
  return text.str();
}

// By name, of a process of this user; empty of others.
std::map<std::string, std::string> environment_of(const std::filesystem::path& process) {
  std::map<std::string, std::string> environment;
  std::istringstream text(content_of(process / "environ"));
  for (std::string entry; std::getline(text, entry, '\0');) {
    const size_t equal = entry.find('=');
    if (equal != std::string::npos) environment.emplace(entry.substr(0, equal), entry.substr(equal + 1));
  }
  return environment;
}

// Variables of Open MPI 4 and 5 that are equal on all ranks of a job and differ between jobs.
constexpr const char* kJob = "PMIX_NAMESPACE";
constexpr const char* kRank = "PMIX_RANK";

int local_ranks_of_launcher() {
  return launcher_number({"OMPI_COMM_WORLD_LOCAL_SIZE"}, 0);
}

/// The processes of this host that are ranks of this job and have not ended, by rank.
std::map<int, int> local_ranks() {
  std::map<int, int> found;
  const char* job = std::getenv(kJob);
  if (job == nullptr) return found;
  std::error_code error;
  for (std::filesystem::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::string name = process->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto environment = environment_of(process->path());
    const auto its_job = environment.find(kJob);
    const auto its_rank = environment.find(kRank);
    if (its_job == environment.end() || its_job->second != job || its_rank == environment.end()) continue;
    found[std::atoi(its_rank->second.c_str())] = std::atoi(name.c_str());
  }
  return found;
}

}  // namespace

Guard::Guard(double seconds, Actions actions) : actions_(std::move(actions)) {
  try {
    thread_ = std::thread([this, seconds] { watch(seconds); });
  } catch (const std::system_error&) {  // the call is not watched
  }
}

Guard::~Guard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ends_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Guard::watch(double seconds) {
  WaitClock clock;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kLook, [this] { return over_; })) {
    if (actions_.stop_requested && actions_.stop_requested()) return actions_.stopped();
    if (seconds > 0.0 && clock.seconds() >= seconds) return actions_.late();
  }
}

std::string state_of_process(int pid) {
  const std::optional<Process> process = process_of(pid);
  if (!process || process->ended()) return "gone";
  switch (process->state) {
    case 'T':
    case 't':
      return "stopped";
    case 'D':
      return "waiting for a disk";
    default:
      return "";
  }
}

std::string describe_local_ranks() {
  std::vector<std::string> texts;
  const std::map<int, int> ranks = local_ranks();
  for (const auto& [rank, pid] : ranks) {
    const std::string state = state_of_process(pid);
    if (!state.empty()) texts.push_back(fmt::format("rank {} (pid {}) is {}", rank, pid, state));
  }
  if (local_rank_exited())
    texts.push_back(fmt::format("only {} of {} ranks have arrived", ranks.size(), local_ranks_of_launcher()));
  if (texts.size() > kMaxNamed) texts.resize(kMaxNamed);
  return fmt::format("{}", fmt::join(texts, ", "));
}

bool local_rank_exited() {
  const std::map<int, int> ranks = local_ranks();
  return !ranks.empty() && local_ranks_of_launcher() > static_cast<int>(ranks.size());
}

int launcher_number(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* variable : variables) {
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  }
  return otherwise;
}

}  // namespace ventris
