#include "trainer/message_terminal.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

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

}  // namespace

MessageTerminal::MessageTerminal() {
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

size_t MessageTerminal::columns() const {
  winsize size{};
  return exists() && ioctl(descriptor_, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool MessageTerminal::reflows() const {
  const char* kind = std::getenv("TERM");
  return std::getenv("XTERM_VERSION") == nullptr && (kind == nullptr || std::string(kind) != "linux");
}

}  // namespace ventris
