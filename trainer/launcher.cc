// SPDX-License-Identifier: Apache-2.0
#include "trainer/launcher.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "comm/process.h"
#include "trainer/text.h"

namespace ventris {
namespace {

std::vector<std::string> words_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process), std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

bool starts_trainings(const std::vector<std::string>& words) {
  if (words.empty()) return false;
  return is_mpirun(std::filesystem::path(words.front()).filename().string()) ||
         (words.size() > 1 && std::filesystem::path(words[1]).filename() == "supervise.sh");
}

/// The mpirun and supervise.sh on this host that started this process, the nearest first. Those on
/// another host, and other launchers, are not found.
std::vector<pid_t> launchers() {
  std::vector<pid_t> found;
  for (pid_t pid = ::getppid(); pid > 1;) {
    const std::optional<Process> process = process_of(pid);
    if (!process || !starts_trainings(words_of(pid))) break;
    found.push_back(pid);
    pid = process->parent;
  }
  return found;
}

}  // namespace

bool is_mpirun(std::string_view name) {
  constexpr std::string_view kNames[] = {"mpirun", "mpiexec", "orterun", "prterun"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::string given_command(const std::string& command) {
  const std::vector<pid_t> pids = launchers();
  if (pids.empty()) return command;
  std::string given;
  for (const std::string& word : words_of(pids.back()))
    given += (given.empty() ? "" : " ") + shell_word(word);
  return given;
}

}  // namespace ventris
