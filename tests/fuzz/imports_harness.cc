#include "backend/error.h"
#include "tests/fuzz/harness.h"
#include "trainer/exchange/marian_config.h"
#include "trainer/files/probe.h"

namespace ventris::fuzz {

/// The texts in files of other programs: Marian's configuration and vocabulary, and the probes of an export.
void run_imports(std::string_view bytes) {
  constexpr int32_t kWords = 64;
  // Words of one character, and those of the seeds by their length.
  const auto find = [](std::string_view word) {
    return word.size() == 1 ? word[0] & 31 : static_cast<int32_t>(word.size() < 32 ? 32 + word.size() : -1);
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
  read([&] { marian_word_ids(text, "input", kWords, find); });
  read([&] { to_json(probes_from_json(text, "input")); });
}

}  // namespace ventris::fuzz
