// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/mix_state.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "data/error.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

using nlohmann::json;

constexpr int64_t kMaxMixCount = int64_t{1} << 53;

/// Reads the members of the object; `origin` is named in errors.
class Members {
 public:
  Members(const json& object, const std::string& origin) : object_(object), origin_(origin) {}

  const json& at(const char* key) const {
    if (!object_.is_object() || !object_.contains(key)) refuse(key);
    return object_[key];
  }
  const json& array(const char* key) const {
    if (!at(key).is_array()) refuse(key);
    return at(key);
  }
  std::string text(const char* key) const {
    if (!at(key).is_string()) refuse(key);
    return at(key).get<std::string>();
  }
  int64_t count(const json& from, const char* key) const {
    int64_t number = 0;
    if (!read_number(from, number) || number < 0 || number > kMaxMixCount) refuse(key);
    return number;
  }
  int64_t count(const char* key) const { return count(at(key), key); }

  [[noreturn]] void refuse(const char* key) const {
    fail(ExitCode::kBadData,
         "{}: its record of a plan of stages has no sound {}; it was changed: use an earlier checkpoint",
         origin_, key);
  }

 private:
  const json& object_;
  const std::string& origin_;
};

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
  const json object = parse_json(text);
  const Members members(object, origin);
  MixState read{.plan = members.text("plan"), .ended = {}};
  data::MixPosition at{
      .stage = members.count("stage"), .steps = members.count("steps"), .draws = members.count("draws")};
  for (const json& before : members.array("before")) at.before.push_back(members.count(before, "before"));
  for (const json& stage : members.array("ended")) {
    const Members of_stage(stage, origin);
    read.ended.push_back({of_stage.text("stage"), of_stage.count("step")});
  }
  const data::MixPlan plan = recorded_plan(read.plan, origin);
  if (at.stage > std::ssize(plan.stages) || at.stage != std::ssize(read.ended)) members.refuse("stage");
  for (size_t i = 0; i < read.ended.size(); ++i) {
    if (read.ended[i].stage != plan.stages[i].name ||
        (i > 0 && read.ended[i].step <= read.ended[i - 1].step)) {
      members.refuse("ended");
    }
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
