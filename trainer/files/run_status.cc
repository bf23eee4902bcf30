// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/run_status.h"

#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "data/files/json_text.h"
#include "trainer/files/json_number.h"
#include "trainer/files/json_text.h"
#include "trainer/files/model_files.h"
#include "trainer/files/run_folder.h"
#include "trainer/text.h"

namespace ventris {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFile = "/status.json";
constexpr int kSignals = 128;  // plus the number of a signal, as in shells and launchers
constexpr std::streamsize kMaxBytes = 1 << 20;

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

void RunStatus::begin(const Place& place, int64_t step, const std::string& last_checkpoint) {
  model_dir_ = place.model_dir;
  folder_.emplace(model_dir_);
  record_ = {.state = "running",
             .step = step,
             .last_checkpoint = last_checkpoint,
             .host = place.host,
             .pid = ::getpid(),
             .rank = place.rank,
             .ranks = place.ranks,
             .started = now_utc()};
  if (record_.rank == 0) write();
}

void RunStatus::saved(int64_t step, const std::string& last_checkpoint) {
  if (!begun()) return;
  record_.step = step;
  record_.last_checkpoint = last_checkpoint;
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
  OrderedJson json = {{data::kFormatKey, data::kStatusFormat}, {"state", record_.state}};
  if (record_.ended.empty()) {
    json["exit_code"] = nullptr;
    json["retryable"] = nullptr;
  } else {
    json["exit_code"] = record_.exit_code;
    json["retryable"] = record_.retryable;
  }
  json.update({{"step", record_.step},
               {"last_checkpoint", record_.last_checkpoint},
               {"message", record_.message},
               {"host", record_.host},
               {"pid", record_.pid},
               {"rank", record_.rank},
               {"ranks", record_.ranks},
               {"started", record_.started},
               {"ended", record_.ended.empty() ? OrderedJson(nullptr) : OrderedJson(record_.ended)}});
  try {
    constexpr int kIndent = 2;
    write_file_atomically(model_dir_ + kFile, json_text(json, kIndent) + "\n");
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
  try {
    bool good = true;
    const auto number = [&]<typename T>(const char* name, T none) {
      if (!json.at(name).is_null()) good = read_number(json.at(name), none) && good;
      return none;
    };
    const auto words = [&](const char* name) {
      return json.at(name).is_null() ? std::string() : json.at(name).get<std::string>();
    };
    const StatusRecord none;
    StatusRecord record = {.state = words("state"),
                           .exit_code = number("exit_code", none.exit_code),
                           .retryable = !json.at("retryable").is_null() && json.at("retryable").get<bool>(),
                           .step = number("step", none.step),
                           .last_checkpoint = words("last_checkpoint"),
                           .message = words("message"),
                           .host = words("host"),
                           .pid = number("pid", none.pid),
                           .rank = number("rank", none.rank),
                           .ranks = number("ranks", none.ranks),
                           .started = words("started"),
                           .ended = words("ended")};
    if (!good) return std::nullopt;
    return record;
  } catch (const OrderedJson::exception&) {
    return std::nullopt;
  }
}

}  // namespace ventris
