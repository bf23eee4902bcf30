// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "data/io/folder_lock.h"

namespace ventris {

class Communicator;
class Progress;

/// Creates the run folder, and holds it on rank 0; null on the others. Warns if the file system has no locks.
/// Throws DataError kCannotCreate if another run holds it, and data::NewerFormat if config.json, best.json or
/// status.json is of a later version of the program.
std::unique_ptr<data::FolderLock> lock_run_folder(const Communicator& communicator, const std::string& folder,
                                                  Progress& progress);

}  // namespace ventris
