// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/run_status.h"

#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "data/io/json_text.h"
#include "data/io/json_value.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFile = "/status.json";
constexpr int kSignals = 128;  // plus the number of a signal, as in shells and launchers
constexpr std::streamsize kMaxBytes = 1 << 20;

/// Calls each(name, member) for all members, in the order of the file.
template <typename Record, typename Each>
void for_each_member(Record& record, Each&& each) {
  each("state", record.state);
  each("exit_code", record.exit_code);
  each("retryable", record.retryable);
  each("step", record.step);
  each("last_checkpoint", record.last_checkpoint);
  each("message", record.message);
  each("host", record.host);
  each("pid", record.pid);
  each("rank", record.rank);
  each("ranks", record.ranks);
  each("started", record.started);
  each("ended", record.ended);
}

}  // namespace

int64_t StatusRecord::saved_step() const {
  return last_checkpoint.empty() ? -1 : step_of_checkpoint(last_checkpoint);
}

bool is_worth_restarting(int exit_code, bool begun) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::kUnavailable:
    case ExitCode::kIo:
    case ExitCode::kStopped:
      return true;
    case ExitCode::kRanksDisagree:
      return begun;  // before, the files or options differ; later, the memory of a rank
    default:
      return exit_code > kSignals;
  }
}

void RunStatus::on_start(const RunStart& start) {
  model_dir_ = start.model_dir;
  folder_.emplace(model_dir_);
  record_ = {.state = "running",
             .step = start.step,
             .last_checkpoint = start.last_checkpoint,
             .host = start.host,
             .pid = ::getpid(),
             .rank = start.rank,
             .ranks = start.ranks,
             .started = now_utc()};
  if (record_.rank == 0) write();
}

void RunStatus::on_save(const SavedCheckpoint& saved) {
  if (!begun()) return;
  record_.step = saved.step;
  record_.last_checkpoint = saved.path;
  if (record_.rank == 0) write();
}

void RunStatus::end(int exit_code, const std::string& message) {
  if (!begun()) return;
  record_.state = exit_code == 0                                      ? "done"
                  : exit_code == static_cast<int>(ExitCode::kStopped) ? "stopped"
                                                                      : "failed";
  record_.exit_code = exit_code;
  record_.retryable = is_worth_restarting(exit_code, /*begun=*/true);
  record_.message = message;
  record_.ended = now_utc();
  write();
}

void RunStatus::write() const {
  if (!folder_->holds()) return;
  OrderedJson json = {{data::kFormatKey, data::kStatusFormat}};
  for_each_member(record_, [&](const char* name, const auto& value) { json[name] = value; });
  if (record_.ended.empty()) {
    for (const char* name : {"exit_code", "retryable", "ended"}) json[name] = nullptr;
  }
  try {
    constexpr int kIndent = 2;
    data::write_file_atomically(model_dir_ + kFile, json_text(json, kIndent) + "\n");
  } catch (const std::exception&) {
  }
}

std::optional<StatusRecord> read_status(const std::string& model_dir) {
  std::error_code not_there;
  if (!std::filesystem::is_regular_file(model_dir + kFile, not_there)) return std::nullopt;  // nor a pipe
  std::ifstream file(model_dir + kFile);
  std::string text(static_cast<size_t>(kMaxBytes), '\0');
  file.read(text.data(), kMaxBytes);
  text.resize(static_cast<size_t>(file.gcount()));
  const OrderedJson json = data::try_ordered_json(text);
  refuse_newer_format(json, model_dir + kFile);
  StatusRecord record;
  bool good = json.is_object();
  for_each_member(record, [&](const char* name, auto& value) {
    good = good && json.contains(name) && (json[name].is_null() || data::read_json_value(json[name], value));
  });
  return good ? std::optional(record) : std::nullopt;
}

}  // namespace ventris
