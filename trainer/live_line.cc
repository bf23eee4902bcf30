// SPDX-License-Identifier: Apache-2.0
#include "trainer/live_line.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "comm/process.h"
#include "trainer/launcher.h"

namespace ventris {
namespace {

constexpr const char* kErase = "\r\033[K";

/// Whether the parent reads our standard error and writes it to its own. A shell does not: it may have
/// redirected the stream to a file.
bool parent_forwards_messages() {
  struct stat status = {};
  if (fstat(STDERR_FILENO, &status) != 0 || !S_ISFIFO(status.st_mode)) return false;
  const std::optional<Process> parent = process_of(getppid());
  return parent && is_mpirun(parent->name);
}

bool has_cursor() {
  const char* term = std::getenv("TERM");
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

void write_message(const std::string& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stderr);
}

}  // namespace

LiveLine::LiveLine() : job_(getpgrp()) {
  if (!has_cursor()) return;
  if (isatty(STDERR_FILENO) == 1) {
    terminal_ = STDERR_FILENO;
  } else if (parent_forwards_messages()) {
    const std::string path = fmt::format("/proc/{}/fd/{}", getppid(), STDERR_FILENO);
    const int opened = open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (isatty(opened) == 1) {
      terminal_ = opened;
      job_ = getpgid(getppid());
    } else if (opened >= 0) {
      close(opened);
    }
  }
}

LiveLine::~LiveLine() {
  if (terminal_ >= 0 && terminal_ != STDERR_FILENO) close(terminal_);
}

bool LiveLine::is_possible() const {
  if (terminal_ < 0) return false;
  const pid_t foreground = tcgetpgrp(terminal_);
  return foreground < 0 || foreground == job_;  // < 0: it is not the terminal of this session
}

size_t LiveLine::columns() const {
  winsize size{};
  return terminal_ >= 0 && ioctl(terminal_, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void LiveLine::show(const std::string& text) {
  // A line that fills the last column may wrap and could not be overwritten.
  const size_t width = columns();
  write_message(kErase + (width > 0 ? text.substr(0, width - 1) : text));
  is_shown_ = true;
}

void LiveLine::clear() {
  if (std::exchange(is_shown_, false)) write_message(kErase);
}

void LiveLine::leave() {
  if (std::exchange(is_shown_, false)) write_message("\n");
}

}  // namespace ventris
