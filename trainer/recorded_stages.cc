// SPDX-License-Identifier: Apache-2.0
#include "trainer/recorded_stages.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "data/files/hdf5_reader.h"
#include "data/files/json_text.h"
#include "trainer/files/json_text.h"
#include "trainer/files/json_value.h"
#include "trainer/files/run_folder.h"
#include "trainer/metrics.h"

namespace ventris {
namespace {

/// Adds the ends after the step to which `recorded` reaches.
void add_stage_lines(const std::string& folder, RecordedStages& recorded) {
  const std::string path = folder + "/metrics.jsonl";
  std::error_code not_there;
  if (!std::filesystem::is_regular_file(path, not_there)) return;  // a pipe would block
  const data::MixPlan plan =
      recorded.mix.plan.empty() ? data::MixPlan{} : data::parse_mix_plan(recorded.mix.plan, "--mix");
  const int64_t of_checkpoint = recorded.last_step;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json object = data::try_json(line);
    refuse_newer_format(object, path);
    int64_t step = 0;
    if (!object.is_object() || !object.contains("step") || !read_number(object["step"], step)) continue;
    recorded.last_step = std::max(recorded.last_step, step);
    const size_t next = recorded.mix.ended.size();
    if (step > of_checkpoint && next < plan.stages.size() && text_in(object, "event") == kStageEndEvent &&
        text_in(object, "ended_stage") == plan.stages[next].name) {
      recorded.mix.ended.push_back({plan.stages[next].name, step});
    }
  }
}

}  // namespace

RecordedStages recorded_stages(const std::string& folder, const std::string& plan) {
  RecordedStages recorded{.mix = {.plan = plan, .ended = {}}};
  const std::vector<std::string> checkpoints = list_checkpoints(folder);
  if (!checkpoints.empty()) {
    const data::Hdf5Reader reader(checkpoints.back());
    recorded.corpus_digest = reader.string_attribute("/", "corpus_digest");
    recorded.last_step = reader.int_attribute("/", "step");
    if (reader.has_attribute("/", kMixAttribute)) {
      data::MixPosition position;
      read_mix_json(reader.string_attribute("/", kMixAttribute), reader.path(), recorded.mix, position);
      recorded.mix.plan = plan;
    }
  }
  add_stage_lines(folder, recorded);
  return recorded;
}

RecordedPosition recorded_position(const std::string& folder, int64_t steps) {
  std::vector<std::string> checkpoints = list_checkpoints(folder);
  std::erase_if(checkpoints, [&](const std::string& path) { return step_of_checkpoint(path) > steps; });
  RecordedPosition recorded;
  if (checkpoints.empty()) return recorded;
  const data::Hdf5Reader reader(checkpoints.back());
  recorded.step = reader.int_attribute("/", "step");
  recorded.position.epoch = reader.int_attribute("/", "epoch");
  recorded.position.index = reader.int_attribute("/", "epoch_index");
  if (reader.has_attribute("/", kMixAttribute)) {
    MixState mix;
    read_mix_json(reader.string_attribute("/", kMixAttribute), reader.path(), mix, recorded.position.mix);
  }
  return recorded;
}

}  // namespace ventris
