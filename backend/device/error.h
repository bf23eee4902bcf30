// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace ventris {

/// Exit codes of the program (docs/exit-codes.md).
enum class ExitCode : int {
  kDone = 0,
  kUsage = 64,
  kBadData = 65,
  kMissingInput = 66,
  kUnavailable = 69,
  kInternal = 70,
  kCannotCreate = 73,
  kIo = 74,
  kStopped = 75,
  kRanksDisagree = 76,
  kDiverged = 77,
  kBadConfiguration = 78,
};

/// A failure that ends the job: a message for a person (what, where, what was expected, what to try) and its
/// exit code.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Throws Error with a formatted message.
[[noreturn]] void fail_formatted(ExitCode code, fmt::string_view format, fmt::format_args args);
template <typename... Args>
[[noreturn]] void fail(ExitCode code, fmt::format_string<Args...> format, Args&&... args) {
  fail_formatted(code, format, fmt::make_format_args(args...));
}

/// What VENTRIS_CHECK throws.
[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace ventris

/// CHECK is for a caller's mistake or the environment and is always on; it throws Error(kInternal) with place
/// and values. DCHECK is for our own bugs and is compiled out of release builds.
#define VENTRIS_CHECK(condition, ...)                                                    \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::ventris::fail_check(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)

#ifdef NDEBUG
#define VENTRIS_DCHECK(condition, ...) static_cast<void>(0)
#else
#define VENTRIS_DCHECK(condition, ...) VENTRIS_CHECK(condition, __VA_ARGS__)
#endif
