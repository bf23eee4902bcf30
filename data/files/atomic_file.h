// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ventris::data {

class TemporaryFile;

/// A file that appears under its name, complete and synced, at commit(), in place of an existing one; without
/// commit() nothing remains of it (data/files/temporary_file.h). Errors: DataError kCannotCreate, kIo with
/// the path and the reason of the system.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Overwrites bytes that were written before.
  void replace(int64_t offset, std::string_view bytes);
  /// Writes pending data to the disk, so that commit() has little left to write.
  void sync();
  int64_t size() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  void commit();

 private:
  void flush();

  std::unique_ptr<TemporaryFile> file_;
  int64_t written_ = 0;       // bytes in the file
  std::vector<char> buffer_;  // those not yet in the file
};

/// Syncs data that was appended to a file; does nothing if there is no file. Throws DataError kIo.
void sync_file(const std::string& path);

/// Limits far above the size of legitimate files of these kinds.
inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;  // a SentencePiece model, a vocabulary
inline constexpr int64_t kMaxTextBytes = int64_t{64} << 20;        // config.json and others of a run folder
inline constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

/// All bytes of a regular file. Throws DataError kMissingInput, kIo, or kBadData if it has more than
/// `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes);

}  // namespace ventris::data
