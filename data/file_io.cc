#include "data/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include "data/error.h"

namespace ventris::data {

void FileHandle::close() {
  if (fd_ >= 0) {
    ::close(std::exchange(fd_, -1));
  }
}

XXH128_canonical_t digest_of_range(int fd, int64_t begin, int64_t end, const std::string& path) {
  Digest digest;
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  std::vector<char> buffer(static_cast<size_t>(std::clamp<int64_t>(end - begin, 0, kMostBytes)));
  for (int64_t at = begin; at < end;) {
    const int64_t bytes = std::min<int64_t>(end - at, static_cast<int64_t>(buffer.size()));
    read_all(fd, buffer.data(), bytes, at, path);
    digest.add(buffer.data(), static_cast<size_t>(bytes));
    at += bytes;
  }
  return digest.value();
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

void fail_opening(const std::string& path, int error) {
  constexpr std::array kOfTheName = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, EBADF};
  const bool of_the_name = std::find(kOfTheName.begin(), kOfTheName.end(), error) != kOfTheName.end();
  fail(of_the_name ? ErrorKind::kMissingInput : ErrorKind::kIo, "{}: cannot open the file: {}", path,
       system_reason(error));
}

void check_is_no_other_thing(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  fail(ErrorKind::kCannotCreate, "{}: cannot create the file: {} has this name", path,
       S_ISDIR(status.st_mode) ? "a folder" : "a device or a pipe");
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::string without_folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

std::string system_reason(int error) {
  return std::generic_category().message(error);
}

}  // namespace ventris::data
