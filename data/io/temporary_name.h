// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ventris::data {

/// A name, new at each call, under which this process writes a future file or folder PATH:
/// PATH.tmp.HOST.PID.RANDOM, with 16 unpredictable hexadecimal digits.
std::string temporary_name(const std::string& path);

/// The name of this host, "unknown" if the system does not tell it.
std::string name_of_host();

/// Marks a file or folder under such a name as being written while the descriptor or a copy of it is open.
/// Other hosts, and processes in other containers, respect it too. Has no effect on a file system without
/// locks.
void mark_as_being_written(int fd);

/// Removes files and folders of a folder that a process left behind under such a name, if `is_ours` is true
/// for the final name: all of them if no other process can be writing there (`alone`:
/// data/io/folder_lock.h), otherwise those that are not marked as being written and whose process is gone
/// from this host, or that have not changed for a day. Returns the removed paths.
std::vector<std::string> remove_abandoned_files(const std::string& folder,
                                                const std::function<bool(const std::string&)>& is_ours,
                                                bool alone);

/// The same for the remains of a future file or folder PATH.
void remove_abandoned(const std::string& path);

}  // namespace ventris::data
