// SPDX-License-Identifier: Apache-2.0
#include "tests/trainer/training_fixture.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/io/json_text.h"

namespace ventris::testing {

TrainResult train_alone(const TrainOptions& options) {
  Context context({.threads = 1});
  const auto self = make_self_communicator();
  return train(context, *self, options, "ventris train (test)");
}

std::vector<nlohmann::json> metrics_of(const TrainOptions& options, const std::string& key) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(options.model_dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    lines.push_back(data::read_json(line));
    lines.back().erase("time");
    if (!key.empty() && !lines.back().contains(key)) lines.pop_back();
  }
  return lines;
}

}  // namespace ventris::testing
