// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace ventris::data {

/// Kinds of failures, with their exit codes (docs/exit-codes.md).
enum class ErrorKind : int {
  kUsage = 64,
  kBadData = 65,
  kMissingInput = 66,
  kUnavailable = 69,
  kCannotCreate = 73,
  kIo = 74,
  kBadConfiguration = 78,
};

/// A failure of reading or writing data: one message for a person (what, where, what was expected, what to
/// try).
class DataError : public std::runtime_error {
 public:
  DataError(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws DataError with a formatted message.
[[noreturn]] inline void fail_formatted(ErrorKind kind, fmt::string_view format, fmt::format_args args) {
  throw DataError(kind, fmt::vformat(format, args));
}
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  fail_formatted(kind, format, fmt::make_format_args(args...));
}

}  // namespace ventris::data
