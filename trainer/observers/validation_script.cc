// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/validation_script.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "trainer/text.h"
#include "trainer/validation/valid_outputs.h"

namespace ventris {
namespace {

constexpr const char* kLimitSeconds = "1800";
constexpr int kTimedOut = 124;  // exit code of timeout

/// The environment of this process without the variables by which launchers tell a process its place in a
/// job: an MPI program that finds them would take part in that job.
std::vector<std::string> environment_for_scripts() {
  constexpr std::string_view kOfLaunchers[] = {"OMPI_", "PMIX_", "PMI_", "PRTE_", "MPI_LOCAL", "SLURM_"};
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (std::ranges::none_of(kOfLaunchers, [&](std::string_view begin) { return text.starts_with(begin); }))
      kept.emplace_back(text);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

void ValidationScript::on_validation(const ValidationMetrics& metrics) {
  const int64_t step = metrics.step;
  for (; waiting_.size() > (process_ != 0 ? 1U : 0U); waiting_.pop_back()) {
    waiting_.back().error = "the script was still busy with another one";
    report(waiting_.back(), step);
  }
  for (const std::string& set : sets_) waiting_.push_back({.of_step = step, .set = set});
  poll(step);
}

void ValidationScript::poll(int64_t step) {
  while (!waiting_.empty()) {
    ScriptResult& task = waiting_.front();
    if (process_ == 0 && run(task)) return;
    if (process_ != 0) {
      int status = 0;  // also if this process ignores SIGCHLD
      const pid_t ended = ::waitpid(process_, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) return;
      process_ = 0;
      read_score(task, status);
    } else {
      task.error = "it cannot be started";
    }
    report(task, step);
    waiting_.pop_front();
  }
}

bool ValidationScript::works(std::chrono::milliseconds wait) const {
  if (process_ != 0) ::poll(nullptr, 0, static_cast<int>(wait.count()));
  return !waiting_.empty();
}

void ValidationScript::stop() {
  waiting_.clear();
  if (process_ == 0) return;
  ::kill(-process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = 0;
}

bool ValidationScript::run(const ScriptResult& task) {
  std::vector<std::string> words = {
      "nice", "-n", "10", "timeout", "--kill-after=5", kLimitSeconds, "/bin/sh", "-c", options_.valid_script};
  std::vector<std::string> environment = environment_for_scripts();
  const auto add = [&](const char* name, const std::string& value) {
    environment.push_back(fmt::format("VENTRIS_{}={}", name, value));
  };
  const auto add_path = [&](const char* name, const std::string& path) {
    add(name, std::filesystem::absolute(path).string());
  };
  add("STEP", std::to_string(task.of_step));
  add("SET", task.set);
  add_path("SOURCES", path_of_valid_text(options_.model_dir, task.set, ValidSide::kSource));
  add_path("REFERENCES", path_of_valid_text(options_.model_dir, task.set, ValidSide::kReference));
  add_path("TRANSLATIONS", path_of_valid_output(options_.model_dir, task.of_step, task.set));

  posix_spawn_file_actions_t files{};
  posix_spawnattr_t attributes{};
  sigset_t none;
  sigset_t all;
  constexpr mode_t kMode = 0666;
  constexpr int kWrites = O_WRONLY | O_CREAT | O_TRUNC;
  const std::string output = path_of(task, ".score");
  const std::string errors = path_of(task, ".log");
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output.c_str(), kWrites, kMode);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, errors.c_str(), kWrites, kMode);
  ::posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  if (::posix_spawnp(&process_, words[0].c_str(), &files, &attributes, pointers_to(words).data(),
                     pointers_to(environment).data()) != 0)
    process_ = 0;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return process_ != 0;
}

std::string ValidationScript::path_of(const ScriptResult& task, const char* ending) const {
  std::filesystem::path path = path_of_valid_output(options_.model_dir, task.of_step, task.set);
  return path.replace_extension(ending).string();
}

void ValidationScript::read_score(ScriptResult& task, int status) const {
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  char line[64] = {};
  std::ifstream(path_of(task, ".score")).getline(line, sizeof line);
  const std::string_view text(line);
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  double score = 0.0;
  const auto [end, error] = std::from_chars(line + first, line + text.size(), score);
  const bool is_number = error == std::errc() && std::isfinite(score) &&
                         std::string_view(end).find_first_not_of(" \t\r") == std::string_view::npos;
  if (code == kTimedOut) {
    task.error = fmt::format("it did not end in {} s", kLimitSeconds);
  } else if (code != 0) {
    task.error = fmt::format("it ended with exit code {}: see {}", code, path_of(task, ".log"));
  } else if (!is_number) {
    task.error = fmt::format("its first line is \"{}\"; expected is one number", readable(text));
  } else {
    task.score = score;
  }
}

void ValidationScript::report(ScriptResult& result, int64_t step) const {
  result.step = step;
  report_(result);
}

}  // namespace ventris
