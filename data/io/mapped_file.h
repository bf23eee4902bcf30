// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/io/digest.h"
#include "data/io/file_io.h"

// Private to data/.

namespace ventris::data {

/// A whole file in memory, read-only. If it has a tree of digests, pages are read one by one when they are
/// first used, and compared with their digests then. Const use is thread-safe.
class MappedFile {
 public:
  /// The descriptor may be closed afterwards; the path is for messages. `tree` is that of the file, or null.
  /// Throws DataError kIo.
  MappedFile(int fd, int64_t bytes, const std::string& path, const DigestTree* tree);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* at(int64_t offset) const { return static_cast<const std::byte*>(address_) + offset; }
  /// Must be called before these bytes of the memory are used. Throws DataError kBadData, naming the file, if
  /// they are not those that were written; compares them only the first time.
  void check(const void* address, size_t bytes) const;
  /// Asks the system to read these bytes soon, and what check() compares them with, without waiting for them.
  void expect(const void* address, size_t bytes) const;

 private:
  bool is_checked(int64_t leaf) const;
  /// Whether any leaf was checked of the branch of this one.
  bool has_checked_branch(int64_t leaf) const;

  FileHandle file_;
  void* address_ = nullptr;
  size_t size_ = 0;
  std::optional<const DigestTree> tree_;
  mutable std::vector<std::atomic<uint64_t>> checked_;  // a bit for each leaf
};

}  // namespace ventris::data
