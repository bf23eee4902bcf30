#pragma once

#include <memory>
#include <string>

#include "data/files/folder_lock.h"

namespace ventris {

class Communicator;
class Progress;

/// Makes the run folder, and holds it on rank 0; null on the others. Warns where the file system has no
/// locks. Throws Error or DataError kCannotCreate where another run holds it, or, without locks, where
/// status.json names a process of this host that is training, and data::NewerFormat where config.json,
/// best.json or status.json are of a later version of the program.
std::unique_ptr<data::FolderLock> hold_run_folder(const Communicator& communicator, const std::string& folder,
                                                  Progress& progress);

}  // namespace ventris
