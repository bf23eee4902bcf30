// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/files/file_io.h"
#include "data/prepare.h"

// Private to data/.

namespace ventris::data {

/// The files of all sets of validation pairs.
std::vector<PairFiles> all_valid_files(const PrepareOptions& options);

/// A copy of the standard input on the disk of the output, if "-" is among the files of the options: text is
/// read more than once. It has no name; nothing remains of it.
class StandardInputCopy {
 public:
  /// Reads it to its end. Errors: DataError kCannotCreate, kIo.
  explicit StandardInputCopy(const PrepareOptions& options);
  /// To open it with, also in child processes; "" if there is none.
  const std::string& path() const { return path_; }

 private:
  FileHandle file_;
  std::string path_;
};

}  // namespace ventris::data
