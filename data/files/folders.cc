// SPDX-License-Identifier: Apache-2.0
#include "data/files/folders.h"

#include <sys/stat.h>

#include <cerrno>

#include "data/error.h"
#include "data/files/file_io.h"

namespace ventris::data {
namespace {

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// The folder `path`, an ancestor of `wanted` or itself, without a trailing slash.
void make_wanted(const std::string& path, const std::string& wanted) {
  const std::string parent = folder_of(path);
  const bool there = is_folder(path);
  if (!there) {
    if (parent != path && !is_folder(parent)) make_wanted(parent, wanted);
    if (::mkdir(path.c_str(), 0777) != 0 && !(errno == EEXIST && is_folder(path))) {
      const int error = errno;
      fail(kind_of_creating(error), "{}: cannot create the folder{}: {}", wanted,
           path == wanted ? "" : " " + path, error == EEXIST ? "a file has this name" : system_reason(error));
    }
  }
  // Also for an existing folder: a killed process may have created it.
  const int error = sync_folder(parent);
  if (error != 0 && !there) {
    fail(ErrorKind::kIo, "{}: the folder was created, but its name cannot be written to the disk: {}", path,
         system_reason(error));
  }
}

}  // namespace

void make_folders(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  if (end != std::string::npos) make_wanted(path.substr(0, end + 1), path.substr(0, end + 1));
}

}  // namespace ventris::data
