// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

#include "data/io/file_io.h"

namespace ventris::data {

/// A folder of files that appears under its name, complete and synced, at commit(), in place of an existing
/// one. It is written beside that one under a temporary name (data/io/temporary_name.h), and removed
/// without commit(); the remains of a killed process are removed by the next one that writes PATH. The two
/// are exchanged in one call if the old one has only files of the new one's names. Otherwise, and if the file
/// system cannot exchange names, if PATH is a mount point or the working folder, or if its parent is not
/// writable, the files are replaced one by one in the old folder, and other files stay. Then the required
/// file is removed first and its new version is written last, so that no reader accepts a mixture; and the
/// mark is written before all others, so that what a killed process leaves is known for ours.
class AtomicFolder {
 public:
  /// Creates the folders above PATH. Throws DataError kCannotCreate if PATH is a file or a link, or cannot be
  /// created.
  explicit AtomicFolder(const std::string& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// The folder to write its files to, each complete and synced (data/io/atomic_file.h).
  const std::string& written_in() const { return temporary_; }
  /// `required`: the name of a file without which no reader accepts such a folder. `mark`: that of a file by
  /// which the writer recognises its folders, or "". Throws DataError kIo.
  void commit(const std::string& required, const std::string& mark = "");

 private:
  bool exchange(const std::vector<std::string>& names);
  void move_files(const std::vector<std::string>& names, const std::string& required,
                  const std::string& mark);
  [[noreturn]] void fail_publishing(const std::string& what, int error) const;

  std::string path_;       // without a slash at its end
  std::string temporary_;  // "" after commit()
  FileHandle opened_;      // holds the lock that marks it as being written
  struct stat made_ {};    // the temporary folder, which only this user can read until it is complete
};

}  // namespace ventris::data
