#include "backend/error.h"
#include "tests/fuzz/harness.h"
#include "trainer/marian_config.h"
#include "trainer/probe.h"

namespace ventris::fuzz {

/// The texts in files of other programs: Marian's configuration and vocabulary, and the probes of an export.
void run_imports(std::string_view bytes) {
  constexpr int64_t kWords = 64;
  const std::string text(bytes);
  const auto read = [&](auto&& parse) {
    try {
      parse();
    } catch (const Error& error) {
      if (error.code() == ExitCode::kInternal) throw;
    }
  };
  read([&] { marian_config(text, "input"); });
  read([&] { marian_vocabulary(text, "input", kWords); });
  read([&] { to_json(probes_from_json(text, "input")); });
}

}  // namespace ventris::fuzz
