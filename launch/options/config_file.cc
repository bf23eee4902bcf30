// SPDX-License-Identifier: Apache-2.0
#include "launch/options/config_file.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "backend/device/error.h"
#include "data/io/file_io.h"
#include "trainer/signals.h"

namespace ventris {
namespace {

// Option files are short; parsed, they take up to a hundred times their size.
constexpr size_t kMaxConfigBytes = size_t{64} << 10;

/// At most `max` bytes of a file, or of a pipe that may not have a writer yet: stop signals end the wait.
std::string read_or_wait(const std::string& path, size_t max) {
  constexpr int kListenEveryMs = 100;
  const auto failed = [&](int error) {
    fail(ExitCode::kMissingInput, "--config: cannot read {}: {}", path,
         error == EISDIR ? "it is a folder" : data::system_reason(error));
  };
  const data::FileHandle file = data::open_to_read(path);
  if (!file.valid()) failed(errno);
  std::string text(max, '\0');
  size_t length = 0;
  while (length < max) {
    if (const int signal = stop_signal(); signal != 0) {
      fail(ExitCode::kStopped, "stopped by signal {} before {}, the file of --config, was read", signal,
           path);
    }
    pollfd waiting = {.fd = file.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kListenEveryMs) <= 0) continue;
    const ssize_t bytes = ::read(file.fd(), text.data() + length, max - length);
    if (bytes < 0 && errno != EINTR && errno != EAGAIN) failed(errno);
    if (bytes == 0) break;
    if (bytes > 0) length += static_cast<size_t>(bytes);
  }
  text.resize(length);
  return text;
}

}  // namespace

std::string read_config(const std::string& path) {
  std::string text = read_or_wait(path, kMaxConfigBytes + 1);
  if (text.size() > kMaxConfigBytes) {
    fail(ExitCode::kBadConfiguration,
         "{}: it is longer than {} bytes; expected lines of the form 'option = value'", path,
         kMaxConfigBytes);
  }
  if (text.rfind("\xEF\xBB\xBF", 0) == 0) text.erase(0, 3);  // the byte order mark of some editors
  if (text.find('\0') != std::string::npos) {
    fail(ExitCode::kBadConfiguration, "{}: contains NUL bytes; expected lines of the form 'option = value'",
         path);
  }
  return text;
}

}  // namespace ventris
