// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/lock_run_folder.h"

#include <exception>
#include <string>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "data/io/file_io.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/observers/progress.h"
#include "trainer/train_options_json.h"

namespace ventris {
namespace {

/// A config.json in a folder without a run, for example of an exported model.
void check_config_is_ours(const std::string& folder) {
  const auto has = [&](const char* name) { return data::is_there(folder + "/" + name); };
  if (!has("config.json") || has(kLockFile) || has("metrics.jsonl") || has("status.json")) return;
  try {
    static_cast<void>(recorded_options(folder));
    return;
  } catch (const std::exception&) {  // not the options of a run
  }
  fail(ExitCode::kCannotCreate,
       "the folder {} holds a config.json but no training run: "
       "of an exported model? It would be replaced. Give another folder",
       folder);
}

}  // namespace

std::unique_ptr<data::FolderLock> lock_run_folder(const Communicator& communicator, const std::string& folder,
                                                  Progress& progress) {
  if (communicator.rank() != 0) return nullptr;
  refuse_newer_run(folder);
  check_config_is_ours(folder);
  data::make_folders(folder);
  auto lock =
      std::make_unique<data::FolderLock>(folder, data::FolderLock::kPatience, [&](const std::string& holder) {
        progress.message(fmt::format("The folder {} is in use by {}; waiting up to {} s for its end", folder,
                                     holder, data::FolderLock::kPatience.count()));
      });
  if (lock->held()) return lock;
  progress.warning(fmt::format(
      "the file system of {} has no locks (flock: {}): only the file .lease, which this run renews, "
      "keeps out a second run; after a kill the next start waits until that file is 30 s old",
      folder, lock->why_not_held()));
  return lock;
}

}  // namespace ventris
