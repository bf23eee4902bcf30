// SPDX-License-Identifier: Apache-2.0
#include "backend/device/error.h"
#include "tests/fuzz/harness.h"
#include "trainer/exchange/marian_config.h"
#include "trainer/exchange/probe.h"

namespace ventris::fuzz {

/// The texts in files of other programs: Marian's configuration and vocabulary, and the probes of an export.
void run_imports(std::string_view bytes) {
  constexpr int32_t kTokens = 64;
  // Tokens of one character, and those of the seeds by their length.
  const auto find = [](std::string_view token) {
    return token.size() == 1 ? token[0] & 31
                             : static_cast<int32_t>(token.size() < 32 ? 32 + token.size() : -1);
  };
  const std::string text(bytes);
  const auto read = [&](auto&& parse) {
    try {
      parse();
    } catch (const Error& error) {
      if (error.code() == ExitCode::kInternal) throw;
    }
  };
  read([&] { marian_config(text, "input"); });
  read([&] { marian_token_ids(text, "input", kTokens, find); });
  read([&] { to_json(probes_from_json(text, "input")); });
}

}  // namespace ventris::fuzz
