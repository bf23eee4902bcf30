#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

namespace ventris::data {

class FileHandle;

/// A folder of files that appears under its name, whole and on the disk, with commit(), in place of one that
/// had it. It is written beside that one under a temporary name (data/files/temporary_name.h), removed
/// without commit(); what a process that was killed left behind is removed by the next that writes PATH.
///
/// The two are exchanged in one call where the old one holds nothing but files of the new one's names. Else,
/// where the file system exchanges no names, where PATH is a mount point or the working folder, and where
/// nothing may be made beside it, the files change places one by one in the old folder, and what else it
/// holds stays: without the needed file first, and with the new one of that name last, so that nobody reads a
/// mixture.
class AtomicFolder {
 public:
  /// Makes the folders above PATH. Throws DataError kCannotCreate where PATH is a file or a link, or where
  /// nothing can be made.
  explicit AtomicFolder(const std::string& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where its files are to be written, each whole and synced (data/files/atomic_file.h).
  const std::string& written_in() const { return temporary_; }
  /// `needed`: the name of a file without which nobody reads such a folder. Throws DataError kIo.
  void commit(const std::string& needed);

 private:
  bool exchange(const std::vector<std::string>& names);
  void move_files(const std::vector<std::string>& names, const std::string& needed);
  [[noreturn]] void fail_publishing(const std::string& what, int error) const;

  std::string path_;                    // without a slash at its end
  std::string temporary_;               // "" after commit()
  std::unique_ptr<FileHandle> opened_;  // holds the mark that it is being written
  struct stat made_ {};  // the temporary folder, whose files nobody else reads until it is whole
};

}  // namespace ventris::data
