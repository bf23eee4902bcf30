#include "launch/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "data/error.h"
#include "data/text_reader.h"

namespace ventris {

namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

// Returns 0 or errno.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

void write_output(std::string_view text) {
  const int error = write_all(STDOUT_FILENO, text);
  if (error == EPIPE) throw ClosedOutput();
  if (error != 0) fail(ExitCode::kIo, "cannot write to the standard output: {}", reason(error));
}

void check_line(std::string& line, const std::string& path, int64_t line_number) {
  if (!line.empty() && line.back() == '\r') line.pop_back();
  std::replace(line.begin(), line.end(), '\0', ' ');
  const int64_t invalid = data::find_invalid_utf8(line);
  if (invalid < 0) return;
  data::fail(data::ErrorKind::kBadData,
             "{}:{}: byte {} of the line is not UTF-8; convert the text first, for example with iconv",
             path == "-" ? "standard input" : path, line_number, invalid + 1);
}

std::vector<std::string> read_text(const std::string& path) {
  data::TextReader reader(path);
  std::vector<std::string> lines;
  std::string line;
  while (reader.next(line)) {
    check_line(line, path, reader.line_number());
    lines.push_back(std::move(line));
  }
  return lines;
}

void write_text_file(const std::string& path, std::string_view text) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) fail(ExitCode::kCannotCreate, "cannot create {}: {}", temporary, reason(errno));
  int error = write_all(fd, text);
  if (error == 0 && ::fsync(fd) != 0 && errno != EINVAL) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  ::unlink(temporary.c_str());
  fail(ExitCode::kIo, "cannot write {}: {}", path, reason(error));
}

std::string grouped(int64_t value) {
  const std::string digits = std::to_string(value);
  const size_t first = digits.front() == '-' ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace ventris
