#pragma once

#include <string>

namespace ventris::data {

/// Makes a folder and those above it that are missing, with modes by the umask, and writes their names to the
/// disk: what is synced in the folder later is found after a loss of power. Throws DataError kCannotCreate
/// where one cannot be made, kIo where its name cannot be written to the disk.
void make_folders(const std::string& path);

}  // namespace ventris::data
