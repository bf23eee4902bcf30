// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris::data {

/// Creates a folder and its missing ancestors, with modes by the umask, and syncs their names: files that are
/// later synced in the folder survive a power loss. Throws DataError kCannotCreate if one cannot be created,
/// kIo if its name cannot be synced.
void make_folders(const std::string& path);

}  // namespace ventris::data
