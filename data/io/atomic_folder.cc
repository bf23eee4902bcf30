// SPDX-License-Identifier: Apache-2.0
#include "data/io/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/temporary_name.h"

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

/// Whether a folder cannot be renamed: a mount point, or one that other processes use by its name.
bool stays_in_place(const std::string& path) {
  struct statx status {};
  constexpr unsigned kNothing = 0;
  if (::statx(AT_FDCWD, path.c_str(), 0, kNothing, &status) == 0 &&
      (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) {
    return true;
  }
  const std::string name = without_folder(path);
  std::error_code error;
  return name == "." || name == ".." || fs::equivalent(path, ".", error);
}

/// The folder under a temporary name of `path`, or "" and errno.
std::string make_temporary(const std::string& path) {
  const std::string name = temporary_name(path);
  return ::mkdir(name.c_str(), 0777) == 0 ? name : "";
}

FileHandle open_folder(const std::string& path) {
  return FileHandle(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) fail(ErrorKind::kIo, "{}: cannot list the folder: {}", folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether the folder has other names, or names that are not regular files.
bool holds_more_than(const std::string& folder, const std::vector<std::string>& names) {
  const std::vector<std::string> found = names_in(folder);
  return std::any_of(found.begin(), found.end(), [&](const std::string& name) {
    struct stat status {};
    return !std::binary_search(names.begin(), names.end(), name) ||
           ::lstat((folder + "/" + name).c_str(), &status) != 0 || !S_ISREG(status.st_mode);
  });
}

}  // namespace

AtomicFolder::AtomicFolder(const std::string& path) : path_(without_slash(path)) {
  struct stat status {};
  const bool there = ::lstat(path_.c_str(), &status) == 0;
  if (there && S_ISLNK(status.st_mode)) {
    std::error_code error;
    fail(ErrorKind::kCannotCreate, "{}: is a link, to {}. Give the folder itself", path_,
         fs::read_symlink(path_, error).string());
  }
  if (there && !S_ISDIR(status.st_mode)) {
    fail(ErrorKind::kCannotCreate, "{}: cannot create the folder: a file has this name", path_);
  }
  if (!there) make_folders(folder_of(path_));
  const std::string within = path_ + "/.new";
  remove_abandoned(path_);
  remove_abandoned(within);
  const bool in_place = there && stays_in_place(path_);
  if (!in_place) temporary_ = make_temporary(path_);
  if (temporary_.empty() && there && (in_place || errno == EACCES || errno == EPERM || errno == EROFS)) {
    temporary_ = make_temporary(within);
  }
  if (temporary_.empty()) {
    const int error = errno;
    fail(kind_of_creating(error), "{}: cannot create the folder: {}.{}", path_, system_reason(error),
         room_at(path_));
  }
  opened_ = open_folder(temporary_);
  if (!opened_.valid() || ::fstat(opened_.fd(), &made_) != 0 || ::fchmod(opened_.fd(), S_IRWXU) != 0) {
    const int error = errno;
    ::rmdir(temporary_.c_str());
    fail(ErrorKind::kIo, "{}: cannot create the folder: {}", path_, system_reason(error));
  }
  mark_as_being_written(opened_.fd());
}

AtomicFolder::~AtomicFolder() {
  if (temporary_.empty()) return;
  std::error_code error;
  fs::remove_all(temporary_, error);
}

void AtomicFolder::commit(const std::string& required, const std::string& mark) {
  const std::vector<std::string> names = names_in(temporary_);
  for (const std::string& name : names) {
    const FileHandle file = open_to_read(temporary_ + "/" + name);
    if (file.valid()) take_permissions_of(path_ + "/" + name, file.fd());
  }
  struct stat old {};
  take_permissions(opened_.fd(), ::lstat(path_.c_str(), &old) == 0 ? old : made_, 07777);
  if (!exchange(names)) move_files(names, required, mark);
  temporary_.clear();
}

/// Whether it has its name now. False if the files must be replaced one by one.
bool AtomicFolder::exchange(const std::vector<std::string>& names) {
  const FileHandle old = open_folder(path_);
  if (!old.valid()) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_publishing("cannot get its name", errno);
  } else {
    if (temporary_.starts_with(path_ + "/") || holds_more_than(path_, names)) return false;
    mark_as_being_written(old.fd());  // it gets the temporary name
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
      constexpr std::array kUnsupportedErrors = {EINVAL, ENOSYS, EOPNOTSUPP, EPERM, EACCES, EBUSY};
      const int error = errno;
      if (std::find(kUnsupportedErrors.begin(), kUnsupportedErrors.end(), error) != kUnsupportedErrors.end())
        return false;
      fail_publishing("cannot replace the old one", error);
    }
  }
  if (const int error = sync_folder(folder_of(path_)); error != 0) {
    temporary_.clear();  // the old one, which may reappear after a power loss
    fail_publishing("is complete, but its name cannot be written to the disk", error);
  }
  if (!old.valid()) return true;
  for (const std::string& name : names) ::unlink((temporary_ + "/" + name).c_str());
  if (::rmdir(temporary_.c_str()) == 0) return true;
  // Files that others created in the meantime.
  for (const std::string& name : names_in(temporary_)) {
    ::rename((temporary_ + "/" + name).c_str(), (path_ + "/" + name).c_str());
  }
  ::rmdir(temporary_.c_str());
  return true;
}

void AtomicFolder::move_files(const std::vector<std::string>& names, const std::string& required,
                              const std::string& mark) {
  const auto sync = [&] {
    if (const int error = sync_folder(path_); error != 0) {
      fail_publishing("has names that cannot be written to the disk", error);
    }
  };
  const auto move = [&](const std::string& name) {
    if (::rename((temporary_ + "/" + name).c_str(), (path_ + "/" + name).c_str()) != 0) {
      fail_publishing(fmt::format("has no {}, so that a mixture of two models is never read, "
                                  "and must be written again: cannot rename {}",
                                  required, name),
                      errno);
    }
  };
  for (const std::string& name : names) check_replaceable(path_ + "/" + name);
  if (::unlink((path_ + "/" + required).c_str()) != 0 && errno != ENOENT) {
    fail_publishing(fmt::format("cannot be written while the old {} exists", required), errno);
  }
  sync();  // no mark of the new files beside the old required one, also after a loss of power
  if (!mark.empty()) move(mark);
  for (const std::string& name : names) {
    if (name != required && name != mark) move(name);
  }
  sync();
  move(required);
  sync();
  ::rmdir(temporary_.c_str());
}

void AtomicFolder::fail_publishing(const std::string& what, int error) const {
  fail(ErrorKind::kIo, "{}: the new folder {}: {}.{}", path_, what, system_reason(error), room_at(path_));
}

}  // namespace ventris::data
