// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace ventris {

namespace data {
class Corpus;
}

/// Detects that a mapped file, which was checked when it was opened, is changed, replaced or removed while a
/// run reads it.
class CorpusWatch {
 public:
  /// Records the state of the file; must be created before it is opened. A missing file is reported when it
  /// is opened.
  explicit CorpusWatch(std::string path);
  /// Throws Error(kBadData), naming the file and what changed: its inode, size or time of modification. If
  /// only its status time changed, which cannot be reset (a mode, a link, or bytes with a restored time of
  /// modification), its bytes are compared with its digest, once for each such change. Throws data::DataError
  /// kIo if they cannot be read.
  void check() const { check(nullptr); }
  /// The same while the corpus is open: instead of the whole file, what was read of it so far is compared.
  void check(const data::Corpus& corpus) const { check(&corpus); }

 private:
  struct Facts {
    dev_t device = 0;
    ino_t number = 0;
    int64_t bytes = -1;
    int64_t modified = 0;  // nanoseconds
    int64_t changed = 0;   // of its status, nanoseconds
  };
  /// The current state of the path; without bytes if it does not exist.
  Facts look() const;
  std::string read_head() const;
  void check(const data::Corpus* corpus) const;
  /// "", or the error in the bytes.
  std::string compare_bytes(const data::Corpus* corpus) const;

  const std::string path_;
  const Facts begin_;
  const std::string head_;                // its first bytes, with the digest of the rest
  mutable std::atomic<int64_t> changed_;  // the last change of its status that was checked
};

}  // namespace ventris
