#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

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

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw DataError(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ventris::data
