// SPDX-License-Identifier: Apache-2.0
#include "launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <system_error>
#include <thread>

#include "backend/error.h"

namespace ventris {
namespace {

using namespace std::chrono_literals;

constexpr int kSignalled = 128;  // plus the number of the signal
constexpr int kStop = SIGUSR1;   // mpirun passes it on and waits; ventris saves
constexpr auto kLastWait = 10s;  // for processes after SIGKILL

// Not SIGHUP if it was ignored when the program started, as with nohup.
sigset_t awaited_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  struct sigaction inherited = {};
  sigaction(SIGHUP, nullptr, &inherited);
  if (inherited.sa_handler == SIG_IGN) sigdelset(&set, SIGHUP);
  return set;
}

// In the new process: only calls that are safe after fork.
[[noreturn]] void become(char* const* words, pid_t parent, int failure_pipe) {
  prctl(PR_SET_PDEATHSIG, kStop);
  if (getppid() != parent) _exit(kSignalled + kStop);
  setpgid(0, 0);  // Ctrl-C on the terminal is for the supervisor, which forwards it once
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(words[0], words);
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = write(failure_pipe, &reason, sizeof(reason));
  _exit(EXIT_FAILURE);
}

}  // namespace

Supervision::Supervision() {
  VENTRIS_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl failed with {}", errno);
  std::signal(SIGCHLD, SIG_DFL);  // if it were ignored, ends of children would be lost
  const sigset_t set = awaited_signals();
  VENTRIS_CHECK(sigprocmask(SIG_BLOCK, &set, nullptr) == 0, "sigprocmask failed with {}", errno);
}

Supervision::~Supervision() {
  end_what_is_left();
}

void Supervision::start(const std::vector<std::string>& words) {
  end_.reset();
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::array<int, 2> failure{};
  if (pipe2(failure.data(), O_CLOEXEC) != 0) {
    fail(ExitCode::kIo, "cannot start a process: {}; raise the limit on descriptors (ulimit -n)",
         std::generic_category().message(errno));
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(pointers.data(), parent, failure[1]);
  const int fork_error = errno;
  close(failure[1]);
  int reason = 0;
  const bool failed = pid_ > 0 && read(failure[0], &reason, sizeof(reason)) == sizeof(reason);
  close(failure[0]);
  if (pid_ < 0) {
    pid_ = 0;
    fail(ExitCode::kUnavailable,
         "cannot start a process: {}; raise the limits on processes (ulimit -u, pids.max)",
         std::generic_category().message(fork_error));
  }
  if (failed) {
    waitpid(pid_, nullptr, 0);
    fail(ExitCode::kMissingInput, "cannot start {}: {}", words.front(),
         std::generic_category().message(reason));
  }
}

void Supervision::send(int signal) const {
  if (!end_) kill(pid_, signal);
}

int Supervision::wait(std::chrono::milliseconds max, bool for_end) {
  const auto until = std::chrono::steady_clock::now() + max;
  const sigset_t set = awaited_signals();
  while (true) {
    reap();
    const auto left = until - std::chrono::steady_clock::now();
    if ((for_end && end_) || left <= 0ms) return 0;
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
    const auto part = std::chrono::duration_cast<std::chrono::nanoseconds>(left - whole);
    const timespec time = {.tv_sec = whole.count(), .tv_nsec = static_cast<long>(part.count())};
    const int signal = sigtimedwait(&set, nullptr, &time);
    if (signal > 0 && signal != SIGCHLD) return signal;
  }
}

void Supervision::reap() {
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(-1, &status, WNOHANG)) > 0;) {
    if (ended != pid_) continue;
    const bool by_signal = WIFSIGNALED(status);
    end_ = {.code = by_signal ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status), .by_signal = by_signal};
  }
}

std::vector<pid_t> Supervision::end_what_is_left() {
  std::vector<pid_t> ended;
  const auto until = std::chrono::steady_clock::now() + kLastWait;
  while (std::chrono::steady_clock::now() < until) {
    reap();
    const std::vector<pid_t> left = descendants_of(getpid());
    if (left.empty()) break;
    for (const pid_t process : left) {
      kill(process, SIGKILL);
      if (std::find(ended.begin(), ended.end(), process) == ended.end()) ended.push_back(process);
    }
    std::this_thread::sleep_for(10ms);
  }
  return ended;
}

std::map<pid_t, Process> all_processes() {
  std::map<pid_t, Process> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    const pid_t pid = std::atoi(number.c_str());
    if (const std::optional<Process> process = process_of(pid)) found.emplace(pid, *process);
  }
  return found;
}

std::vector<pid_t> descendants_of(pid_t ancestor, const std::map<pid_t, Process>& processes) {
  std::multimap<pid_t, pid_t> children;
  for (const auto& [pid, process] : processes) children.emplace(process.parent, pid);
  std::vector<pid_t> found;
  std::vector<pid_t> open = {ancestor};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child) {
      found.push_back(child->second);
      open.push_back(child->second);
    }
  }
  return found;
}

}  // namespace ventris
