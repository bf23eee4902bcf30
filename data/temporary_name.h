#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ventris::data {

/// The name under which this process writes what is to become the file: PATH.tmp.HOST.PID.
std::string temporary_name(const std::string& path);

/// Removes files of a folder that a process left behind under such a name, where `is_ours` holds for the name
/// that the file was to get: all of them if nobody else can be writing there (`alone`: data/folder_lock.h),
/// else those of processes of this host that are gone, and of other hosts, which cannot be asked, if the file
/// has not changed for a day. Returns the paths of those that were removed.
std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone);

}  // namespace ventris::data
