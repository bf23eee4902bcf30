// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <string>

namespace ventris {

/// Detects that a mapped file, which was checked when it was opened, is changed, replaced or removed while a
/// run reads it; not a change in place that leaves its size and its time of modification as they were.
class CorpusWatch {
 public:
  /// Records the state of the file; must be created before it is opened. A missing file is reported when it
  /// is opened.
  explicit CorpusWatch(std::string path);
  /// Throws Error(kBadData), naming the file and what changed: its inode, size or time of modification.
  void check() const;

 private:
  const std::string path_;
  const struct stat begin_;
};

}  // namespace ventris
