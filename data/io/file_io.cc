// SPDX-License-Identifier: Apache-2.0
#include "data/io/file_io.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

namespace ventris::data {

void FileHandle::close() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

XXH128_canonical_t digest_of_range(int fd, int64_t begin, int64_t end, const std::string& path) {
  Digest digest;
  constexpr int64_t kMaxBytes = int64_t{1} << 20;
  std::vector<char> buffer(static_cast<size_t>(std::clamp<int64_t>(end - begin, 0, kMaxBytes)));
  for (int64_t at = begin; at < end;) {
    const int64_t bytes = std::min<int64_t>(end - at, static_cast<int64_t>(buffer.size()));
    read_all(fd, buffer.data(), bytes, at, path);
    digest.add(buffer.data(), static_cast<size_t>(bytes));
    at += bytes;
  }
  return digest.value();
}

FileHandle open_to_read(const std::string& path) {
  return FileHandle(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

std::string digest_of_file(const std::string& path) {
  const FileHandle file = open_to_read(path);
  struct stat status {};
  if (!file.valid() || ::fstat(file.fd(), &status) != 0) fail_opening(path, errno);
  return hexadecimal(digest_of_range(file.fd(), 0, status.st_size, path));
}

std::string write_all(int fd, const void* data, int64_t bytes, int64_t offset) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pwrite(fd, from, static_cast<size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) return done < 0 ? system_reason(errno) : "nothing was written";
    from += done;
    offset += done;
    bytes -= done;
  }
  return "";
}

void read_all(int fd, void* data, int64_t bytes, int64_t offset, const std::string& path) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pread(fd, to, static_cast<size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) {
      continue;
    }
    if (done <= 0) {
      fail(ErrorKind::kIo, "{}: cannot read {} bytes at byte {}: {}", path, bytes, offset,
           done < 0 ? system_reason(errno) : "the file ends there");
    }
    to += done;
    offset += done;
    bytes -= done;
  }
}

namespace {

/// A path by which the system finds an open file, independent of its name.
std::string path_of(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
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
  make_wanted(without_slash(path), without_slash(path));
}

bool is_at(int fd, const std::string& path) {
  struct stat there {};
  struct stat open {};
  return ::fstat(fd, &open) == 0 && ::stat(path.c_str(), &there) == 0 && there.st_dev == open.st_dev &&
         there.st_ino == open.st_ino;
}

FileHandle open_unnamed(const std::string& folder) {
  FileHandle file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  return file.valid() && is_at(file.fd(), path_of(file.fd())) ? std::move(file) : FileHandle();
}

int link_unnamed(int fd, const std::string& path) {
  return ::linkat(AT_FDCWD, path_of(fd).c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
}

void take_permissions(int fd, const struct stat& of, mode_t bits) {
  mode_t mode = of.st_mode & bits;
  if (::fchown(fd, of.st_uid, of.st_gid) != 0 && ::fchown(fd, static_cast<uid_t>(-1), of.st_gid) != 0)
    mode = (mode & ~(S_ISGID | 070U)) | (mode & 07U) << 3;
  static_cast<void>(::fchmod(fd, mode));  // a file system may not support modes
}

void take_permissions_of(const std::string& path, int fd) {
  struct stat old {};
  if (::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode)) take_permissions(fd, old, 0777);
}

int sync_folder(const std::string& folder) {
  const FileHandle opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return opened.valid() && (::fsync(opened.fd()) == 0 || errno == EINVAL) ? 0 : errno;
}

ErrorKind kind_of_creating(int error) {
  constexpr std::array kMayPass = {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM};
  const bool may_pass = std::find(kMayPass.begin(), kMayPass.end(), error) != kMayPass.end();
  return may_pass ? ErrorKind::kIo : ErrorKind::kCannotCreate;
}

void fail_opening(const std::string& path, int error) {
  constexpr std::array kNameErrors = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, EBADF};
  const bool of_the_name = std::find(kNameErrors.begin(), kNameErrors.end(), error) != kNameErrors.end();
  fail(of_the_name ? ErrorKind::kMissingInput : ErrorKind::kIo, "{}: cannot open the file: {}", path,
       system_reason(error));
}

void check_replaceable(const std::string& path) {
  struct stat status {};
  // A name of an open file, such as /dev/stdout: replacing it would affect all programs.
  constexpr int kMaxLinks = 40;
  std::filesystem::path name = path;
  for (int links = 0; links < kMaxLinks && ::lstat(name.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
       ++links) {
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(name, error);
    if (name.native().starts_with("/proc/") || target.native().starts_with("/proc/")) {
      fail(ErrorKind::kCannotCreate,
           "{}: cannot create the file: this name is an open file of a process. Give the name of a file",
           path);
    }
    name = target.is_absolute() ? target : name.parent_path() / target;
  }
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail(ErrorKind::kCannotCreate, "{}: cannot create the file: {} has this name", path,
       S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe");
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string without_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string without_slash(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  return end == std::string::npos ? "/" : path.substr(0, end + 1);
}

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

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace ventris::data
