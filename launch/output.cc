// SPDX-License-Identifier: Apache-2.0
#include "launch/output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "data/error.h"
#include "data/text/text_reader.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/text.h"

namespace ventris {

namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace

void write_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EPIPE) {
      throw ClosedOutput();
    } else if (errno != EINTR) {
      fail(ExitCode::kIo, "cannot write to the standard output: {}", reason(errno));
    }
  }
}

void tell(const std::string& message) {
  std::fputs((readable_lines(message) + "\n").c_str(), stderr);
}

void tell_error(const std::string& where, const std::string& message) {
  tell(where + ": error: " + message);
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

namespace {

std::vector<std::string> checked_lines(data::TextReader& reader, const std::string& path) {
  std::vector<std::string> lines;
  std::string line;
  while (reader.next(line)) {
    check_line(line, path, reader.line_number());
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

std::vector<std::string> read_text(const std::string& path) {
  data::TextReader reader(path);
  return checked_lines(reader, path);
}

std::vector<std::string> read_scored_text(const std::string& path) {
  data::TextReader reader(path);
  std::vector<std::string> lines = checked_lines(reader, path);
  if (!reader.had_mark()) return lines;
  if (lines.empty()) lines.emplace_back();  // a text of nothing else
  lines.front().insert(0, data::kByteOrderMark);
  return lines;
}

void check_can_create(const std::string& path) {
  check_is_no_file_of_a_run(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(ExitCode::kCannotCreate, "cannot create {}: {} has this name", path,
         S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe");
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    fail(ExitCode::kCannotCreate, "cannot create {} in its folder: {}", path, reason(errno));
  }
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
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
