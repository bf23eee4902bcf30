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

/// The checkpoints of a run folder by rising step.
std::vector<std::string> list_checkpoints(const std::string& model_dir);
/// Records which checkpoint is the best (file best.json, written atomically) and which it is ("" if none was
/// recorded). A file that is there and cannot be read is an error (kIo), one that names none too (kBadData),
/// and one of a later version (data::NewerFormat).
void write_best(const std::string& model_dir, const std::string& checkpoint_path, const std::string& metric,
                double value);
std::string read_best(const std::string& model_dir);
/// Removes the record where what it names is not there any more.
void forget_best_that_is_gone(const std::string& model_dir);
/// Removes all but the newest `keep` checkpoints; the best always stays.
void prune_checkpoints(const std::string& model_dir, int keep);

/// Whether the program writes a file of this name into run folders: a checkpoint, metrics.jsonl and others.
bool is_name_of_run_file(const std::string& name);

/// What describes the newest start of the folder's run.
std::string path_of_config(const std::string& folder);

/// For outputs of other commands. Throws Error kCannotCreate where the path would be such a file of a folder
/// that holds a run: what is there cannot be made again.
void check_is_no_file_of_a_run(const std::string& path);
/// Likewise for a folder of output, whose files' names are those of a run, too.
void check_is_no_run_folder(const std::string& folder);

}  // namespace ventris
