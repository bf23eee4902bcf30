// SPDX-License-Identifier: Apache-2.0
#include "data/files/changed_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "data/error.h"
#include "data/files/digest_tree.h"

namespace ventris::data {

bool is_open_for_writing(int fd) {
  // Of the superblock, versions 2 and 3: signature, version, sizes of offsets and lengths, consistency flags,
  // base address, address of the extension, end of file.
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  constexpr size_t kVersionAt = 8;
  constexpr size_t kOffsetBytesAt = 9;
  constexpr size_t kFlagsAt = 11;
  constexpr size_t kEndAt = 28;
  constexpr int kOpenForWriting = 1;
  constexpr int kOpenWithReaders = 4;  // single writer, multiple readers
  std::array<char, kEndAt + sizeof(uint64_t)> block{};
  if (::pread(fd, block.data(), block.size(), kUserBlockBytes) != std::ssize(block)) return false;
  const bool known = block[kVersionAt] == 2 || block[kVersionAt] == 3;
  if (!std::equal(kSignature.begin(), kSignature.end(), block.begin()) || !known ||
      block[kOffsetBytesAt] != sizeof(uint64_t)) {
    return false;
  }
  uint64_t end = 0;
  std::memcpy(&end, block.data() + kEndAt, sizeof(end));
  const bool has_end = end != 0 && end != std::numeric_limits<uint64_t>::max();
  return !has_end || (block[kFlagsAt] & (kOpenForWriting | kOpenWithReaders)) != 0;
}

void fail_changed(int fd, const std::string& path, const std::string& difference) {
  if (!is_open_for_writing(fd)) {
    fail(ErrorKind::kBadData, "{}: the file was changed after it was written: {}. Copy it again.", path,
         difference);
  }
  fail(
      ErrorKind::kBadData,
      "{}: another program has the file open for writing, or was killed while it had: HDF5's mark of that is "
      "set, and {}. Close the file there, and take a copy from before, or make it with ventris again.",
      path, difference);
}

void require_length(int fd, const std::string& path, int64_t bytes, uint64_t recorded) {
  if (recorded == static_cast<uint64_t>(bytes - kUserBlockBytes)) return;
  // A record that is damaged may be any number.
  constexpr auto kBlock = static_cast<uint64_t>(kUserBlockBytes);
  const uint64_t expected = std::min(recorded, std::numeric_limits<uint64_t>::max() - kBlock) + kBlock;
  const std::string difference = fmt::format("its length is {} bytes, but {} were written", bytes, expected);
  if (is_open_for_writing(fd)) fail_changed(fd, path, difference);
  fail(
      ErrorKind::kBadData,
      "{}: {}: it was changed, or cut, after ventris wrote it. Copy it again. If another program wrote to it, "
      "take a copy from before, or make it with ventris again.",
      path, difference);
}

}  // namespace ventris::data
