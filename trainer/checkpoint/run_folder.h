// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// The lock of a run folder, which every run takes and none removes.
inline constexpr const char* kLockFile = ".lock";

/// The name of the checkpoint of a step, and the step of a name like that (a path or a file name), or -1.
std::string path_of_checkpoint(const std::string& model_dir, int64_t step);
int64_t step_of_checkpoint(const std::string& path);

/// The checkpoints of a run folder by increasing step.
std::vector<std::string> list_checkpoints(const std::string& model_dir);
/// Records the best checkpoint (file best.json, written atomically), or returns it ("" if none was recorded).
/// An existing file that cannot be read (kIo), that names none (kBadData) or is of a later version
/// (data::NewerFormat) is an error.
struct BestRecord {
  std::string checkpoint;  // path
  std::string metric;
  double value = 0.0;
  std::string signature = {};  // of the score; "" if it has none
};
void write_best(const std::string& model_dir, const BestRecord& record);
std::string read_best(const std::string& model_dir);
/// Throws data::NewerFormat for a config.json, best.json or status.json of a later version; metrics.jsonl is
/// checked where it is read.
void refuse_newer_run(const std::string& folder);
/// Removes the record if the named checkpoint no longer exists.
void forget_best_that_is_gone(const std::string& model_dir);
/// Removes all except the newest `keep` checkpoints and the best.
void prune_checkpoints(const std::string& model_dir, int keep);

/// Whether the program writes a file of this name into run folders: a checkpoint, metrics.jsonl and others.
bool is_name_of_run_file(const std::string& name);

/// The files that describe the newest start of the folder's run.
std::string path_of_config(const std::string& folder);
/// The tokens that train --init-vocabulary extend found to be new, one in a line.
std::string path_of_new_tokens(const std::string& folder, const std::string& side);

/// For outputs of other commands. Throws Error kCannotCreate if the path is such a file in a folder with a
/// run, as it cannot be recreated.
void check_is_no_file_of_a_run(const std::string& path);
/// The same for an output folder, whose files have names of a run.
void check_is_no_run_folder(const std::string& folder);

}  // namespace ventris
