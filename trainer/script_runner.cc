// SPDX-License-Identifier: Apache-2.0
#include "trainer/script_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <utility>

#include "trainer/text.h"

namespace ventris {
namespace {

constexpr size_t kMaxQuotedLine = 60;
constexpr std::string_view kSpaces = " \t\r";

/// The beginning of a line.
std::string in_quotes(std::string_view line) {
  return fmt::format("\"{}{}\"", readable(line.substr(0, kMaxQuotedLine)),
                     line.size() > kMaxQuotedLine ? "..." : "");
}

}  // namespace

ScriptResult result_of(const ScriptTask& task, const ScriptEnd& end) {
  ScriptResult result{.of = task, .score = std::nullopt, .error = end.fault};
  if (!end.fault.empty()) return result;
  const std::string_view line = std::string_view(end.output).substr(0, end.output.find('\n'));
  const size_t first = std::min(line.find_first_not_of(kSpaces), line.size());
  const std::string_view word = line.substr(first, line.find_last_not_of(kSpaces) + 1 - first);
  double score = 0.0;
  const auto [stopped, error] = std::from_chars(word.data(), word.data() + word.size(), score);
  if (error == std::errc() && stopped == word.data() + word.size() && std::isfinite(score)) {
    result.score = score;
  } else {
    result.error = fmt::format("its first line is {}; expected is one finite number, on the standard output",
                               word.empty() ? "empty" : in_quotes(word));
  }
  return result;
}

ScriptRunner::ScriptRunner(ScriptCommand command, std::string model_dir)
    : command_(std::move(command)), model_dir_(std::move(model_dir)), thread_([this] { run(); }) {}

ScriptRunner::~ScriptRunner() {
  stop();
}

void ScriptRunner::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void ScriptRunner::add(const ScriptTask& task) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(task);
  }
  changed_.notify_all();
}

std::vector<ScriptTask> ScriptRunner::drop_waiting() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return {};
  const auto kept = std::ranges::find_if(
      waiting_, [step = waiting_.front().step](const ScriptTask& task) { return task.step != step; });
  std::vector<ScriptTask> dropped(kept, waiting_.end());
  waiting_.erase(kept, waiting_.end());
  return dropped;
}

std::vector<ScriptResult> ScriptRunner::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(results_, {});
}

bool ScriptRunner::works(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [this] { return waiting_.empty() || stops_; });
  return !waiting_.empty();
}

ScriptCommand ScriptRunner::command_for(const ScriptTask& task) const {
  ScriptCommand command = command_;
  const std::string folder =
      std::filesystem::absolute(path_of_script_texts(model_dir_, task)).lexically_normal().string();
  for (const auto& [name, value] :
       {std::pair("STEP", std::to_string(task.step)), std::pair("SET", task.set),
        std::pair("SOURCES", folder + "/sources.txt"), std::pair("REFERENCES", folder + "/references.txt"),
        std::pair("TRANSLATIONS", folder + "/translations.txt")})
    command.environment.push_back(fmt::format("VENTRIS_{}={}", name, value));
  return command;
}

void ScriptRunner::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !waiting_.empty() || stops_; });
    if (stops_) return;
    const ScriptTask task = waiting_.front();
    lock.unlock();
    const ScriptEnd end = run_script(command_for(task), stops_);
    lock.lock();
    if (end.stopped) return;
    waiting_.pop_front();
    results_.push_back(result_of(task, end));
    changed_.notify_all();
  }
}

}  // namespace ventris
