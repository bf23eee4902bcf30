// SPDX-License-Identifier: Apache-2.0
#include "trainer/script_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string_view>

#include "backend/error.h"
#include "data/files/file_io.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using Clock = std::chrono::steady_clock;
using data::FileHandle;

constexpr int kLookEveryMs = 50;
constexpr std::chrono::seconds kPatienceWithDead{2};  // a killed process may hang in the kernel
constexpr int kLifeline = 3;                          // the descriptor in the shell
constexpr size_t kMaxWords = 200;                     // of the standard error, in a message
constexpr int kSignalled = 128;                       // exit codes of shells: plus the number of the signal

// The lifeline is a pipe that nobody writes to: its end means that the trainer has ended. The guard alone
// waits for that, and dies with the group.
constexpr const char* kShell = R"sh(
{ echo 1000 > /proc/self/oom_score_adj; } 2> /dev/null
{ read -r end <&3; kill -KILL 0; } > /dev/null 2>&1 &
guard=$!
/bin/sh -c "$1" 3<&-
code=$?
{ kill -KILL $guard; wait $guard; } 2> /dev/null
exit $code
)sh";

struct Pipe {
  FileHandle from, to;
};

/// Both above the descriptors that the shell gets.
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(ExitCode::kIo, "no pipe: {}", std::strerror(errno));
  Pipe pipe{FileHandle(ends[0]), FileHandle(ends[1])};
  for (FileHandle* end : {&pipe.from, &pipe.to}) {
    if (end->fd() > kLifeline) continue;
    *end = FileHandle(::fcntl(end->fd(), F_DUPFD_CLOEXEC, kLifeline + 1));
    if (!end->valid()) fail(ExitCode::kIo, "no pipe: {}", std::strerror(errno));
  }
  return pipe;
}

/// The first bytes of a stream, and the last ones.
class Stream {
 public:
  explicit Stream(FileHandle from) : from_(std::move(from)) {
    ::fcntl(from_.fd(), F_SETFL, ::fcntl(from_.fd(), F_GETFL) | O_NONBLOCK);
  }

  /// -1 at its end.
  int fd() const { return from_.fd(); }
  /// Reads what is there, at most until the limit.
  void read() {
    std::array<char, 1 << 16> block;
    while (from_.valid() && !is_too_long()) {
      const ssize_t bytes = ::read(from_.fd(), block.data(), block.size());
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes < 0 && errno == EAGAIN) return;
      if (bytes <= 0) return from_.close();
      const std::string_view text(block.data(), static_cast<size_t>(bytes));
      bytes_ += text.size();
      begin_ += text.substr(0, kMaxScriptOutput - begin_.size());
      end_ += text;
      if (end_.size() > kMaxScriptOutput) end_.erase(0, end_.size() - kMaxScriptOutput);
    }
  }
  bool is_too_long() const { return bytes_ > kMaxScriptBytes; }
  const std::string& begin() const { return begin_; }
  /// The last line with text.
  std::string last_line() const {
    const size_t last = end_.find_last_not_of(" \t\r\n");
    if (last == std::string::npos) return "";
    const size_t before = end_.find_last_of("\r\n", last);
    const size_t first = before == std::string::npos ? 0 : before + 1;
    return readable(std::string_view(end_).substr(first, std::min(last + 1 - first, kMaxWords)));
  }

 private:
  FileHandle from_;
  size_t bytes_ = 0;
  std::string begin_, end_;
};

/// Releases what posix_spawn needs.
struct SpawnSettings {
  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  SpawnSettings() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
};

/// Starts the shell in a process group of its own; returns its process id.
pid_t spawn(const ScriptCommand& command, int output, int errors, int lifeline) {
  SpawnSettings settings;
  ::posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&settings.files, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, errors, STDERR_FILENO);
  ::posix_spawn_file_actions_adddup2(&settings.files, lifeline, kLifeline);
  ::posix_spawn_file_actions_addclosefrom_np(&settings.files, kLifeline + 1);
  sigset_t none;
  sigset_t defaults;
  ::sigemptyset(&none);
  ::sigemptyset(&defaults);
  for (const int signal : {SIGPIPE, SIGXFSZ, SIGCHLD, SIGINT, SIGTERM}) ::sigaddset(&defaults, signal);
  ::posix_spawnattr_setsigmask(&settings.attributes, &none);
  ::posix_spawnattr_setsigdefault(&settings.attributes, &defaults);
  ::posix_spawnattr_setpgroup(&settings.attributes, 0);
  ::posix_spawnattr_setflags(&settings.attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::array<std::string, 5> words = {"/bin/sh", "-c", kShell, "ventris", command.line};
  std::vector<std::string> variables = command.environment;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  for (std::string& word : words) arguments.push_back(word.data());
  for (std::string& variable : variables) environment.push_back(variable.data());
  arguments.push_back(nullptr);
  environment.push_back(nullptr);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, words[0].c_str(), &settings.files, &settings.attributes,
                                  arguments.data(), environment.data());
  if (error != 0) fail(ExitCode::kUnavailable, "{}: {}", words[0], std::strerror(error));
  errno = 0;
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  // A refusal leaves it at our priority.
  if (errno == 0) ::setpriority(PRIO_PGRP, static_cast<id_t>(process), std::min(nice + kScriptNice, 19));
  return process;
}

/// Whether the process has ended; it keeps its id.
bool has_ended(pid_t process) {
  siginfo_t end{};
  const int rc = ::waitid(P_PID, static_cast<id_t>(process), &end, WEXITED | WNOHANG | WNOWAIT);
  return (rc != 0 && errno != EINTR) || end.si_pid == process;
}

/// Kills the group, and waits for the shell. Returns its status, if there is one: not if this process ignores
/// SIGCHLD.
std::optional<int> end_group(pid_t process) {
  ::kill(-process, SIGKILL);
  int status = 0;
  for (const auto until = Clock::now() + kPatienceWithDead; Clock::now() < until;) {
    const pid_t ended = ::waitpid(process, &status, WNOHANG);
    if (ended == process) return status;
    if (ended < 0 && errno != EINTR) break;
    ::poll(nullptr, 0, 1);
  }
  return std::nullopt;
}

std::string fault_of(int status, const Stream& errors) {
  const bool by_signal = WIFSIGNALED(status);
  const int code = by_signal ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  if (code == 0) return "";
  const char* const name = code > kSignalled ? ::sigabbrev_np(code - kSignalled) : nullptr;
  const std::string words = errors.last_line();
  return fmt::format("it ended with exit code {}{}{}", code, name ? fmt::format(" (SIG{})", name) : "",
                     words.empty() ? "" : ": " + words);
}

}  // namespace

ScriptEnd run_script(const ScriptCommand& command, const std::atomic<bool>& stops) {
  ScriptEnd end;
  try {
    Pipe output = make_pipe();
    Pipe errors = make_pipe();
    Pipe lifeline = make_pipe();
    const pid_t process = spawn(command, output.to.fd(), errors.to.fd(), lifeline.from.fd());
    for (FileHandle* ours : {&output.to, &errors.to, &lifeline.from}) ours->close();
    std::array<Stream, 2> streams = {Stream(std::move(output.from)), Stream(std::move(errors.from))};
    const auto deadline = Clock::now() + std::chrono::duration<double>(command.limit_seconds);
    const auto is_too_long = [&] { return streams[0].is_too_long() || streams[1].is_too_long(); };
    const auto read = [&] {
      for (Stream& stream : streams) stream.read();
    };
    while (!has_ended(process) && !is_too_long() && !end.stopped && end.fault.empty()) {
      std::array<pollfd, 2> ready{};
      for (size_t i = 0; i < ready.size(); ++i) ready[i] = {streams[i].fd(), POLLIN, 0};
      ::poll(ready.data(), ready.size(), kLookEveryMs);
      read();
      end.stopped = stops;
      if (Clock::now() >= deadline)
        end.fault = fmt::format("it did not end in {:g} s and was killed", command.limit_seconds);
    }
    const std::optional<int> status = end_group(process);
    read();
    if (is_too_long()) end.fault = fmt::format("it printed more than {} MiB", kMaxScriptBytes >> 20);
    if (end.fault.empty() && status) end.fault = fault_of(*status, streams[1]);
    end.output = streams[0].begin();
  } catch (const std::exception& error) {
    end.fault = fmt::format("it cannot be started: {}", error.what());
  }
  return end;
}

std::vector<std::string> environment_for_scripts() {
  constexpr std::string_view kOfLaunchers[] = {"OMPI_",
                                               "PMIX_",
                                               "PMI_",
                                               "PRTE_",
                                               "MPI_LOCAL",
                                               "SLURM_PROCID=",
                                               "SLURM_LOCALID=",
                                               "SLURM_NTASKS",
                                               "SLURM_NPROCS=",
                                               "SLURM_STEP",
                                               "SLURM_TASKS_PER_NODE="};
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kOfLaunchers, [&](std::string_view begin) { return text.starts_with(begin); }))
      kept.emplace_back(text);
  }
  return kept;
}

}  // namespace ventris
