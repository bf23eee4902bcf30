#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

class TemporaryFile;

/// A file that appears under its name, whole and on the disk, with commit(), in place of one that had it;
/// else nothing is left of it (data/files/temporary_file.h). Errors: DataError kCannotCreate, kIo with the
/// path and the reason of the system.
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
  /// Brings what was written to the disk; commit() has little more to do then.
  void sync();
  int64_t size() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  void commit();

 private:
  void flush();

  std::unique_ptr<TemporaryFile> file_;
  int64_t written_ = 0;       // bytes in the file
  std::vector<char> buffer_;  // those that follow
};

/// Writes what was appended to a file to the disk; a file that is not there has nothing. Throws DataError
/// kIo.
void sync_file(const std::string& path);

/// Far more than files of these kinds have that people make: what has more is another file.
inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;  // a SentencePiece model, a vocabulary
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;        // config.json and others of a run folder
inline constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

/// All bytes of a regular file. Throws DataError kMissingInput, kIo, or kBadData for one of more than
/// `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes);

}  // namespace ventris::data
