#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ventris::data {

/// A name, new with each call, under which this process writes what is to become the file or folder:
/// PATH.tmp.HOST.PID.RANDOM, of 16 hexadecimal digits that nobody can foretell.
std::string temporary_name(const std::string& path);

/// Marks what lies under such a name as being written, for as long as the descriptor or a copy of it is open.
/// Other hosts, and processes whose ids are not seen here, heed it too. Nothing happens where the file system
/// has no locks.
void mark_as_being_written(int fd);

/// Removes files of a folder that a process left behind under such a name, or under one without RANDOM as
/// earlier versions gave, where `is_ours` holds for the name that the file was to get: all of them if nobody
/// else can be writing there (`alone`: data/files/folder_lock.h), else those that nothing marks as being
/// written and whose process is gone from this host, or that have not changed for a day. Returns the paths of
/// those that were removed.
std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone);

/// The same for what a process left behind that was to become PATH, file or folder, with all that a folder
/// holds.
void remove_abandoned(const std::string& path);

}  // namespace ventris::data
