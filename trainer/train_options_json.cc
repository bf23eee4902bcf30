// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_format.h"
#include "data/io/json_text.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/options/model_config.h"
#include "trainer/options/train_rows.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr const char* kEnvironment = "environment";
constexpr const char* kFormat = data::kFormatKey;

json json_of(const TrainOptions& options) {
  json object = {{kFormat, data::kConfigFormat}, {kModelSection, data::read_json(to_json(options.model))}};
  const TrainRows rows(options);
  for (const Option& row : rows.table.options()) {
    if (row.section.empty()) object[row.key()] = row.to_json();
  }
  return object;
}

}  // namespace

std::string to_json(const TrainOptions& options) {
  return json_text(json_of(options), 2);
}

std::string config_json(const TrainOptions& options, const std::string& environment) {
  json object = json_of(options);
  if (!environment.empty()) object[kEnvironment] = parse_json(environment);
  return json_text(object, 2);
}

TrainOptions train_options_from_json(const std::string& text, const std::string& origin) {
  const json object = parse_json(text);
  refuse_newer_format(object, origin);
  if (!object.is_object() || !object.contains(kModelSection)) {
    fail(ExitCode::kBadData,
         "{}: is not a JSON object with the options of a run, such as the config.json of a run folder{}",
         origin, object.is_object() ? ": it has no model" : "");
  }
  if (object.contains(kFormat) && object[kFormat] != data::kConfigFormat) {
    fail(ExitCode::kBadData, "{}: its format is {}; expected is \"{}\", the options of a run", origin,
         data::utf8_json_text(object[kFormat]), data::kConfigFormat);
  }
  TrainRows read;
  TrainOptions& options = read.options;
  options.model = transformer_config_from_json(data::utf8_json_text(object[kModelSection]), origin);
  options.tie = name_of(options.model.tie);  // unless the file says more
  std::set<std::string> known = {kModelSection, kEnvironment, kFormat};
  for (const Option& row : read.table.options()) {
    if (!row.section.empty()) continue;
    const std::string key = row.key();
    known.insert(key);
    const auto found = object.find(key);
    if (found != object.end() && !row.from_json(*found)) {
      fail(ExitCode::kBadData, "{}: {} is {}, which is not a value of that option; expected is {}", origin,
           key, found->dump(), row.json_type);
    }
  }
  for (const auto& [key, value] : object.items()) {
    if (known.contains(key)) continue;
    fail(ExitCode::kBadData, "{}: has the unknown option {}: {}", origin, key,
         is_key_of_config(key) ? "it belongs in \"model\"" : "it is misspelt, or from another version");
  }
  return options;
}

TrainOptions recorded_options(const std::string& folder) {
  const std::string path = path_of_config(folder);
  const std::vector<uint8_t> bytes = data::read_file(path, data::kMaxTextBytes);
  return train_options_from_json({bytes.begin(), bytes.end()}, path);
}

}  // namespace ventris
