// SPDX-License-Identifier: Apache-2.0
#include "record.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "settings.h"

namespace faults {

void record(const std::string& kind, const std::string& arguments) {
  const std::string& folder = settings().record;
  if (folder.empty()) return;
  write_raw((folder + "/calls").c_str(), O_WRONLY | O_APPEND,
            std::to_string(syscall(SYS_gettid)) + "\t" + kind + "\t" + arguments + "\n");
}

void record_open(int fd, const std::string& path, int flags) {
  std::string how;
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    how = "unnamed";
  } else {
    if ((flags & O_CREAT) != 0) how += "create,";
    if ((flags & O_TRUNC) != 0) how += "truncate,";
  }
  record("open", std::to_string(fd) + "\t" + path + "\t" + how);
}

void record_write(int fd, const void* data, size_t bytes, long offset) {
  const std::string& folder = settings().record;
  if (folder.empty()) return;
  if (offset < 0) offset = syscall(SYS_lseek, fd, 0L, SEEK_CUR) - static_cast<long>(bytes);
  write_raw((folder + "/data").c_str(), O_WRONLY | O_APPEND,
            std::string(static_cast<const char*>(data), bytes));
  record("write", std::to_string(fd) + "\t" + std::to_string(offset) + "\t" + std::to_string(bytes));
}

void record_write(int fd, const struct iovec* pieces, int count, size_t bytes) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    const size_t rest = std::min(pieces[i].iov_len, bytes - all.size());
    all.append(static_cast<const char*>(pieces[i].iov_base), rest);
  }
  record_write(fd, all.data(), all.size(), -1);
}

}  // namespace faults
