#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

class TemporaryFile;

/// A file that is written to a temporary name in the same folder; commit() fsyncs it, renames it to `path`
/// and fsyncs the folder. Without commit() the temporary file is removed. Errors: DataError kCannotCreate,
/// kIo with the path and the reason of the system.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Replaces bytes that were written before.
  void replace(int64_t offset, std::string_view bytes);
  int64_t size() const { return size_; }
  void commit();

 private:
  std::unique_ptr<TemporaryFile> file_;
  int64_t size_ = 0;
};

/// All bytes of a regular file. Throws DataError kMissingInput, or kIo.
std::vector<uint8_t> read_file(const std::string& path);

}  // namespace ventris::data
