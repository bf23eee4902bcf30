#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/context.h"
#include "comm/communicator.h"
#include "tests/support/tiny_run.h"
#include "trainer/trainer.h"

namespace ventris::testing {

/// Trains in this process, on one rank of one thread.
inline TrainResult train_alone(const TrainOptions& options) {
  Context context({.threads = 1});
  const auto self = make_self_communicator();
  return train(context, *self, options, "ventris train (test)");
}

/// The objects of metrics.jsonl in the run folder that hold the key, without their time; all of them where
/// none is given.
inline std::vector<nlohmann::json> metrics_of(const TrainOptions& options, const std::string& key = "") {
  std::vector<nlohmann::json> lines;
  std::ifstream file(options.model_dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    lines.push_back(nlohmann::json::parse(line));
    lines.back().erase("time");
    if (!key.empty() && !lines.back().contains(key)) lines.pop_back();
  }
  return lines;
}

}  // namespace ventris::testing
