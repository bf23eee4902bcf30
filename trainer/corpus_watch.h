#pragma once

#include <sys/types.h>

#include <atomic>
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
  /// Throws Error(kBadData), naming the file and what changed: its inode, size or time of modification. Where
  /// only its status changed, which nobody can set back (a mode, a link, or bytes and then the time of
  /// modification as it was), its bytes are compared with its digest, once for each such change. Throws
  /// data::DataError kIo where they cannot be read.
  void check() const;

 private:
  struct Facts {
    dev_t device = 0;
    ino_t number = 0;
    int64_t bytes = -1;
    int64_t modified = 0;  // nanoseconds
    int64_t changed = 0;   // its status, likewise
  };
  /// Of what the path names now; without bytes where there is nothing.
  Facts look() const;
  std::string read_head() const;
  /// "", or what is wrong with the bytes.
  std::string compare_bytes() const;

  const std::string path_;
  const Facts begin_;
  const std::string head_;                // its first bytes, with the digest of the rest
  mutable std::atomic<int64_t> changed_;  // the last change of its status that was looked into
};

}  // namespace ventris
