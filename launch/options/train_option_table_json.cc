// SPDX-License-Identifier: Apache-2.0
#include "launch/options/train_option_table_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/json_text.h"
#include "launch/options/train_option_table.h"
#include "trainer/json_text.h"
#include "trainer/train_options_json.h"

namespace ventris {

std::vector<std::pair<std::string, std::string>> train_options_of(const std::string& json,
                                                                  const std::string& path) {
  TrainCommandOptions read;
  try {
    read.train = train_options_from_json(json, path);
  } catch (const Error& error) {
    fail(ExitCode::kBadConfiguration, "{}", error.what());
  }
  if (!read.train.mix.empty()) read.mix = path;
  OptionTable table;
  add_train_options(read, table);
  std::vector<std::pair<std::string, std::string>> options;
  for (const std::string& glob : read.train.freeze) options.emplace_back("freeze", glob);
  for (const std::string& file : read.train.initial_embeddings) options.emplace_back("init-embeddings", file);
  const nlohmann::json given = parse_json(json);
  const nlohmann::json complete = parse_json(to_json(TrainOptions()));
  for (const Option& option : table.options()) {
    std::string key = option.name;
    std::replace(key.begin(), key.end(), '-', '_');
    if (complete.contains(key) && !given.contains(key)) continue;  // as in the preset
    try {
      if (const std::string value = option.show(); !value.empty()) options.emplace_back(option.name, value);
    } catch (const OptionError& error) {
      fail(ExitCode::kBadConfiguration, "{}: {} is {}; {}", path, key, data::utf8_json_text(given[key]),
           error.what());
    }
  }
  return options;
}

}  // namespace ventris
