// SPDX-License-Identifier: Apache-2.0
#include "launch/options/mix_option.h"

#include <cstdint>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/mix_plan.h"
#include "trainer/train_options_json.h"

namespace ventris {

void take_mix(TrainCommandOptions& options) {
  if (options.mix.empty()) return;
  const std::vector<uint8_t> bytes = data::read_file(options.mix, data::kMaxTextBytes);
  const std::string text(bytes.begin(), bytes.end());
  if (const size_t first = text.find_first_not_of(" \t\r\n"); first != text.npos && text[first] == '{') {
    options.train.mix = train_options_from_json(text, options.mix).mix;
    if (options.train.mix.empty())
      fail(ExitCode::kBadConfiguration, "--mix {}: the run of this file has no plan of stages", options.mix);
    return;
  }
  options.train.mix = data::to_text(data::parse_mix_plan(text, options.mix));
}

}  // namespace ventris
