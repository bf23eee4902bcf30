// SPDX-License-Identifier: Apache-2.0
#include "backend/device/error.h"

namespace ventris {

void fail_formatted(ExitCode code, fmt::string_view format, fmt::format_args args) {
  throw Error(code, fmt::vformat(format, args));
}

void fail_check(const char* file, int line, const char* condition, const std::string& message) {
  fail(ExitCode::kInternal, "{}:{}: {} does not hold: {}", file, line, condition, message);
}

}  // namespace ventris
