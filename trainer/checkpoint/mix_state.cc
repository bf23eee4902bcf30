// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/mix_state.h"

#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/error.h"
#include "data/io/json_value.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr int64_t kMaxMixCount = int64_t{1} << 53;

data::MixPlan recorded_plan(const std::string& text, const std::string& origin) {
  try {
    return data::parse_mix_plan(text, origin);
  } catch (const data::DataError& error) {
    fail(ExitCode::kBadData, "{}; it was changed: use an earlier checkpoint", error.what());
  }
}

}  // namespace

std::string mix_json(const MixState& mix, const data::MixPosition& position) {
  if (mix.plan.empty()) return "";
  json ended = json::array();
  for (const EndedStage& stage : mix.ended) ended.push_back({{"stage", stage.stage}, {"step", stage.step}});
  return json_text(json{{"plan", mix.plan},
                        {"stage", position.stage},
                        {"steps", position.steps},
                        {"draws", position.draws},
                        {"before", position.before},
                        {"ended", ended}});
}

void read_mix_json(const std::string& text, const std::string& origin, MixState& mix,
                   data::MixPosition& position) {
  const auto refuse = [&] {
    fail(ExitCode::kBadData,
         "{}: its record of a plan of stages is not sound; it was changed: use an earlier checkpoint",
         origin);
  };
  const auto count = [&](const json& from) {
    int64_t number = 0;
    if (!data::read_number(from, number) || number < 0 || number > kMaxMixCount) refuse();
    return number;
  };
  MixState read;
  data::MixPosition at;
  try {
    const json object = parse_json(text);
    read.plan = object.at("plan").get<std::string>();
    at.stage = count(object.at("stage"));
    at.steps = count(object.at("steps"));
    at.draws = count(object.at("draws"));
    for (const json& before : object.at("before").get<json::array_t>()) at.before.push_back(count(before));
    for (const json& stage : object.at("ended").get<json::array_t>())
      read.ended.push_back({stage.at("stage").get<std::string>(), count(stage.at("step"))});
  } catch (const json::exception&) {
    refuse();
  }
  const data::MixPlan plan = recorded_plan(read.plan, origin);
  if (at.stage > std::ssize(plan.stages) || at.stage != std::ssize(read.ended)) refuse();
  for (size_t i = 0; i < read.ended.size(); ++i) {
    const bool later = i == 0 || read.ended[i].step > read.ended[i - 1].step;
    if (read.ended[i].stage != plan.stages[i].name || !later) refuse();
  }
  mix = std::move(read);
  position = std::move(at);
}

data::MixPlan plan_as_it_was(const MixState& mix) {
  data::MixPlan plan = data::parse_mix_plan(mix.plan, "--mix");
  int64_t begin = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    data::StageEnd& end = plan.stages[i].end;
    if (i < mix.ended.size()) {
      end = {data::StageEnd::Kind::kSteps, mix.ended[i].step - begin};
      begin = mix.ended[i].step;
    } else if (end.kind == data::StageEnd::Kind::kStalled) {
      end = {};
      plan.stages.resize(i + 1);
    }
  }
  return plan;
}

}  // namespace ventris
