#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ventris::data {

/// A whole file in memory, read-only. Pages are read when they are first used, without read-ahead.
class MappedFile {
 public:
  /// The descriptor may be closed afterwards; the path is for messages. Throws DataError kIo.
  MappedFile(int fd, int64_t bytes, const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::byte* at(int64_t offset) const { return static_cast<const std::byte*>(address_) + offset; }
  /// Requires that these bytes, an address of this memory, are those that were written. Thread-safe.
  void check(const void* address, size_t bytes) const;

 private:
  void* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ventris::data
