#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace ventris {

/// Notices that a file which is mapped, and was checked when it was opened, is changed, replaced or removed
/// while a run reads it.
class CorpusWatch {
 public:
  /// Remembers the file as it is now; to be made before it is opened. A file that is not there is the
  /// business of who opens it.
  explicit CorpusWatch(std::string path);
  /// Throws Error(kBadData), naming the file and what changed: its inode, size or time of modification.
  void check() const;

 private:
  struct Facts {
    dev_t device = 0;
    ino_t number = 0;
    int64_t bytes = -1;
    int64_t modified = 0;  // nanoseconds
  };
  /// Of what the path names now; without bytes where there is nothing.
  Facts look() const;

  const std::string path_;
  const Facts begin_;
};

}  // namespace ventris
