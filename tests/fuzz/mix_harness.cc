// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backend/device/error.h"
#include "data/error.h"
#include "data/mix_plan.h"
#include "tests/fuzz/harness.h"
#include "trainer/checkpoint/mix_state.h"

namespace ventris::fuzz {

/// Plans of stages, and what checkpoints record of a run with a plan.
void run_mix(std::string_view bytes) {
  const auto read = [&](auto&& parse) {
    try {
      parse();
    } catch (const Error& error) {
      if (error.code() == ExitCode::kInternal) throw;
    } catch (const data::DataError&) {
    }
  };
  read([&] {
    const data::MixPlan plan = data::parse_mix_plan(std::string(bytes), "input");
    if (data::parse_mix_plan(data::to_text(plan), "again") != plan) __builtin_trap();
  });
  read([&] {
    MixState mix;
    data::MixPosition position;
    read_mix_json(std::string(bytes), "input", mix, position);
    plan_as_it_was(mix);
  });
}

}  // namespace ventris::fuzz
