#pragma once

#include <memory>
#include <string>

#include "data/files/folder_lock.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;
class Progress;

/// Makes the run folder, and holds it on rank 0; null on the others. Warns where the file system has no
/// locks. Throws Error or DataError kCannotCreate where another run holds it, or, without locks, where
/// status.json names a process of this host that is training, and data::NewerFormat where config.json,
/// best.json or status.json are of a later version of the program.
std::unique_ptr<data::FolderLock> hold_run_folder(const Communicator& communicator, const std::string& folder,
                                                  Progress& progress);

/// Whether the program writes a file of this name into run folders: a checkpoint, metrics.jsonl and others.
bool is_name_of_run_file(const std::string& name);

/// What describes the newest start of the folder's run.
std::string path_of_config(const std::string& folder);
/// Its options. Throws DataError and Error where it is not there or holds none.
TrainOptions recorded_options(const std::string& folder);

/// For outputs of other commands. Throws Error kCannotCreate where the path would be such a file of a folder
/// that holds a run: what is there cannot be made again.
void check_is_no_file_of_a_run(const std::string& path);
/// Likewise for a folder of output, whose files' names are those of a run, too.
void check_is_no_run_folder(const std::string& folder);

}  // namespace ventris
