// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_script.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"

namespace ventris {
namespace {

std::string path_of_log(const TrainOptions& options) {
  return options.model_dir + "/metrics.jsonl";
}

/// What has a result in the log, from `first_step` on.
std::set<ScriptTask> logged_tasks(const std::string& path, int64_t first_step) {
  std::ifstream file(path);
  if (!file) data::fail_opening(path, errno);
  std::set<ScriptTask> logged;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json object = parse_json(line);
    ScriptTask task;
    if (!object.is_object() || text_in(object, "event") != kValidScriptEvent || !object.contains("of_step") ||
        !read_number(object["of_step"], task.step) || task.step < first_step)
      continue;
    task.set = text_in(object, "set");
    logged.insert(task);
  }
  return logged;
}

ScriptTexts texts_of(const ValidationSet& set, const std::vector<std::string>& translations) {
  ScriptTexts texts{.sources = {}, .references = {}, .translations = translations};
  for (int64_t i = 0; i < std::ssize(translations); ++i) {
    texts.sources.push_back(set.source(i));
    texts.references.push_back(set.reference(i));
  }
  return texts;
}

}  // namespace

void check_valid_script(const TrainOptions& options, bool has_pairs) {
  if (options.valid_script.empty() || (options.valid_every > 0 && has_pairs)) return;
  fail(ExitCode::kBadConfiguration, "--valid-script needs validations, but {}",
       options.valid_every == 0
           ? "--valid-every is 0"
           : options.corpus + " has no validation pairs; 'ventris prepare --valid-sets' adds them");
}

ValidationScript::ValidationScript(const TrainOptions& options, const Start& start, MetricsLog& metrics,
                                   Progress& progress)
    : options_(options),
      metrics_(metrics),
      progress_(progress),
      saved_step_(start.step),
      runner_({.line = options.valid_script,
               .environment = environment_for_scripts(),
               .limit_seconds = options.valid_script_limit},
              options.model_dir) {
  remove_later_script_texts(options.model_dir, start.validates_again ? start.step - 1 : start.step);
  const std::vector<ScriptTask> waiting = waiting_script_texts(options.model_dir);
  if (waiting.empty()) return;
  const std::set<ScriptTask> logged = logged_tasks(path_of_log(options), waiting.front().step);
  for (const ScriptTask& task : waiting) {
    if (logged.contains(task)) {
      remove_script_texts(options.model_dir, task);
    } else {
      progress.message(fmt::format("--valid-script continues with step {}, {}", task.step, task.set));
      runner_.add(task);
    }
  }
}

void ValidationScript::start(int64_t step, const ValidationSets& sets,
                             const std::vector<std::vector<std::string>>& translations) {
  for (const ScriptTask& task : runner_.drop_waiting()) {
    without_run_.push_back(
        {.of = task,
         .score = std::nullopt,
         .error = fmt::format("it was not run: it still scored an earlier step at the validation of step {}",
                              step)});
  }
  for (size_t set = 0; set < translations.size(); ++set) {
    const ScriptTask task{step, sets.all()[set].name};
    try {
      write_script_texts(options_.model_dir, task, texts_of(sets.all()[set], translations[set]));
      runner_.add(task);
    } catch (const std::exception& error) {
      without_run_.push_back({.of = task, .score = std::nullopt, .error = error.what()});
    }
  }
}

void ValidationScript::log_arrived(int64_t step) {
  for (const ScriptResult& result : std::exchange(without_run_, {})) log(result, step);
  for (const ScriptResult& result : runner_.take()) log(result, step);
}

void ValidationScript::log(const ScriptResult& result, int64_t step) {
  const auto& [task, score, error] = result;
  metrics_.write_script(step, result);
  if (score) {
    progress_.message(
        fmt::format("step {}  script for step {}, {}: {:.6g}", step, task.step, task.set, *score));
  } else {
    progress_.warning(
        fmt::format("--valid-script has no score for step {}, {}: {}", task.step, task.set, error));
  }
  // A resume from a checkpoint at or after the step, but before this line, would not find the line.
  std::vector<ScriptTask> tasks = {task};
  if (saved_step_ < task.step) return forget(tasks);
  logged_.push_back(task);
}

void ValidationScript::save_begins(int64_t step) {
  saved_step_ = step;
  std::ranges::move(std::exchange(logged_, {}), std::back_inserter(covered_));
}

void ValidationScript::saved() {
  forget(covered_);
}

void ValidationScript::finish() {
  data::sync_file(path_of_log(options_));
  forget(covered_);
  forget(logged_);
}

void ValidationScript::forget(std::vector<ScriptTask>& tasks) {
  for (const ScriptTask& task : std::exchange(tasks, {})) {
    try {
      remove_script_texts(options_.model_dir, task);
    } catch (const std::exception& error) {
      progress_.warning(error.what());
    }
  }
}

}  // namespace ventris
