// SPDX-License-Identifier: Apache-2.0
#include "data/files/disk_room.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cstdint>

#include "data/files/file_io.h"

namespace ventris::data {

std::string room_at(const std::string& path) {
  std::string text;
  struct statvfs disk {};
  if (::statvfs(folder_of(path).c_str(), &disk) == 0) {
    text = fmt::format(" The disk of {} has {} bytes free", folder_of(path),
                       static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize);
    if (disk.f_files > 0 && disk.f_favail == 0) text += ", but no inode for another file";
    if ((disk.f_flag & ST_RDONLY) != 0) text += "; it is mounted read-only";
    text += ".";
  }
  rlimit bound{};
  if (::getrlimit(RLIMIT_FSIZE, &bound) == 0 && bound.rlim_cur != RLIM_INFINITY) {
    text += fmt::format(" The limit on the size of a file is {} bytes (ulimit -f).", bound.rlim_cur);
  }
  return text;
}

}  // namespace ventris::data
