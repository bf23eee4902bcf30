// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace ventris {
namespace {

constexpr const char* kErase = "\r\033[K";

void write_message(const std::string& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stderr);
}

}  // namespace

bool LiveLine::is_possible() const {
  const char* term = std::getenv("TERM");
  if (isatty(STDERR_FILENO) != 1 || term == nullptr || *term == '\0' || std::string_view(term) == "dumb")
    return false;
  const pid_t foreground = tcgetpgrp(STDERR_FILENO);
  return foreground < 0 || foreground == getpgrp();  // < 0: it is not the terminal of this session
}

size_t LiveLine::columns() const {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
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
