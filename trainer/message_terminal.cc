// SPDX-License-Identifier: Apache-2.0
#include "trainer/message_terminal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "comm/process.h"
#include "trainer/launcher.h"

namespace ventris {
namespace {

// Whether the parent reads our standard error and writes it to its own. A shell does not: it may have
// redirected the stream to a file.
bool parent_passes_messages_on() {
  struct stat status = {};
  if (fstat(STDERR_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  const std::optional<Process> parent = process_of(getppid());
  return parent && is_mpirun(parent->name);
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

MessageTerminal::MessageTerminal() {
  job_.push_back(getpgrp());
  for (const pid_t launcher : launchers()) job_.push_back(getpgid(launcher));
  if (isatty(STDERR_FILENO) == 1) {
    descriptor_ = STDERR_FILENO;
  } else if (parent_passes_messages_on()) {
    const std::string path = fmt::format("/proc/{}/fd/{}", getppid(), STDERR_FILENO);
    const int opened = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    owns_ = isatty(opened) == 1;
    if (owns_) descriptor_ = opened;
    if (!owns_ && opened >= 0) close(opened);
  }
}

MessageTerminal::~MessageTerminal() {
  if (owns_) close(descriptor_);
}

bool MessageTerminal::has_cursor() const {
  return exists() && !variable("TERM").empty() && variable("TERM") != "dumb";
}

TerminalSize MessageTerminal::size() const {
  winsize size{};
  if (!exists() || ioctl(descriptor_, TIOCGWINSZ, &size) != 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

bool MessageTerminal::is_of_another_job() const {
  const pid_t group = exists() ? tcgetpgrp(descriptor_) : -1;  // -1 also if this session has another terminal
  return group > 0 && std::ranges::find(job_, group) == job_.end();
}

bool MessageTerminal::reflows() const {
  // A tmux that was started in an xterm has its variables.
  const bool is_tmux = !variable("TMUX").empty();
  return is_tmux || (variable("XTERM_VERSION").empty() && variable("TERM") != "linux");
}

}  // namespace ventris
