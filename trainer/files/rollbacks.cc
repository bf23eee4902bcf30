// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/rollbacks.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backend/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_format.h"
#include "data/files/file_io.h"
#include "trainer/files/json_text.h"
#include "trainer/files/json_value.h"
#include "trainer/files/model_files.h"
#include "trainer/files/run_folder.h"

namespace ventris {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Calls visit(key, field) for each field, so that writing and reading cannot differ.
template <typename Record, typename Visit>
void visit_rollback(Record& rollback, Visit&& visit) {
  visit("from_step", rollback.from_step);
  visit("begin", rollback.begin);
  visit("to_step", rollback.to_step);
  visit("rate", rollback.rate);
  visit("what", rollback.what);
  visit("pending", rollback.pending);
}

}  // namespace

std::string to_json(const std::vector<Rollback>& rollbacks) {
  json list = json::array();
  for (const Rollback& rollback : rollbacks) {
    json& object = list.emplace_back();
    visit_rollback(rollback, [&](const char* key, const auto& field) { object[key] = field; });
  }
  return json_text(json{{data::kFormatKey, data::kRollbacksFormat}, {"rollbacks", list}}, 2);
}

std::vector<Rollback> rollbacks_from_json(const std::string& text, const std::string& where) {
  const json object = parse_json(text);
  refuse_newer_format(object, where);
  const auto refuse = [&] {
    fail(
        ExitCode::kBadData,
        "{}: is not the record of the rollbacks of a run. The learning rate depends on it: restore it from a "
        "copy; or remove it, and a start goes on without the lower rates that checkpoints do not tell",
        where);
  };
  if (!object.is_object() || !object.contains("rollbacks") || !object["rollbacks"].is_array()) refuse();
  std::vector<Rollback> rollbacks;
  for (const json& one : object["rollbacks"]) {
    Rollback& rollback = rollbacks.emplace_back();
    bool whole = one.is_object();
    visit_rollback(rollback, [&](const char* key, auto& field) {
      whole = whole && one.contains(key) && read_json_value(one[key], field);
    });
    whole = whole && rollback.to_step >= 0 && rollback.to_step < rollback.begin &&
            rollback.begin <= rollback.from_step && rollback.rate > 0.0 && rollback.rate <= 1.0;
    if (!whole) refuse();
  }
  return rollbacks;
}

std::vector<Rollback> read_rollbacks(const std::string& model_dir) {
  const std::string path = model_dir + "/" + kRollbacksFile;
  if (!data::is_there(path)) return {};
  const std::vector<uint8_t> bytes = data::read_file(path, kMaxJsonBytes);
  return rollbacks_from_json({bytes.begin(), bytes.end()}, path);
}

void write_rollbacks(const std::string& model_dir, const std::vector<Rollback>& rollbacks) {
  write_file_atomically(model_dir + "/" + kRollbacksFile, to_json(rollbacks) + "\n");
}

double rate_from(const std::vector<Rollback>& rollbacks, int64_t step) {
  double rate = 1.0;
  for (const Rollback& rollback : rollbacks)
    if (rollback.to_step == step) rate *= rollback.rate;
  return rate;
}

void remove_undone_checkpoints(const std::string& model_dir) {
  const std::vector<Rollback> rollbacks = read_rollbacks(model_dir);
  if (rollbacks.empty() || !rollbacks.back().pending) return;
  std::vector<std::string> paths = list_checkpoints(model_dir);
  std::reverse(paths.begin(), paths.end());  // so that a start of an older version finds a whole history
  for (const std::string& path : paths) {
    if (step_of_checkpoint(path) <= rollbacks.back().to_step) continue;
    std::error_code error;
    fs::remove(path, error);
    if (error)
      fail(ExitCode::kIo, "{}: cannot remove the checkpoint, which a rollback undid: {}", path,
           error.message());
  }
  forget_best_that_is_gone(model_dir);
}

std::string checkpoint_before_spike(const std::string& model_dir, int64_t begin, int64_t save_every) {
  std::string found;
  for (const std::string& path : list_checkpoints(model_dir)) {
    const int64_t step = step_of_checkpoint(path);
    if (step > 0 && step % save_every == 0 && step + kSoundSteps <= begin) found = path;
  }
  return found;
}

}  // namespace ventris
