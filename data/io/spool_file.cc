// SPDX-License-Identifier: Apache-2.0
#include "data/io/spool_file.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

namespace ventris::data {

void SpoolFile::copy_to(Hdf5Writer& writer, const std::string& name) {
  file_->flush();
  writer.create(name, type_, size());
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<char> piece(static_cast<size_t>(kPieceBytes));
  for (int64_t at = 0; at < file_->size(); at += kPieceBytes) {
    const int64_t bytes = std::min(file_->size() - at, kPieceBytes);
    read_all(file_->fd(), piece.data(), bytes, at, file_->path());
    writer.append(name, piece.data(), bytes / width_);
    // What was copied is not needed twice; a file system without holes keeps it.
    static_cast<void>(::fallocate(file_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes));
  }
}

}  // namespace ventris::data
