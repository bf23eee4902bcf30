// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/save_timeout.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "backend/device/error.h"

namespace ventris {
namespace {

constexpr double kDefaultTimeout = 1800.0;
constexpr double kMaxTimeout = 1e7;

}  // namespace

double save_timeout() {
  const char* variable = std::getenv(kSaveTimeoutVariable);
  const std::string_view text = variable == nullptr ? "" : variable;
  if (text.empty()) return kDefaultTimeout;
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(seconds >= 0.0 && seconds <= kMaxTimeout)) {
    fail(ExitCode::kUsage, "{}={}: expected seconds from 0 (no limit) to {:.0f}", kSaveTimeoutVariable, text,
         kMaxTimeout);
  }
  return seconds;
}

}  // namespace ventris
