// SPDX-License-Identifier: Apache-2.0
#include "launch/commands/decoding_statistics.h"

#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "data/io/json_text.h"
#include "launch/output.h"

namespace ventris {

void DecodingStatistics::print() const {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::json object = {{"sentences", sentences_},
                                 {"tokens", tokens_},
                                 {"seconds", seconds_},
                                 {"cpu_seconds", cpu_seconds_},
                                 {"peak_mib", static_cast<double>(usage.ru_maxrss) / 1024}};
  tell(data::utf8_json_text(object));
}

}  // namespace ventris
