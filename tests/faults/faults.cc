// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that makes file calls of a program fail, kills it there, or records what they did;
// tests/faults/README.md tells how to use it.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <mutex>
#include <type_traits>

#include "record.h"
#include "settings.h"

namespace {

using namespace faults;

std::string text(int number) {
  return std::to_string(number);
}

/// For calls of which no part can be done: fails with errno, or does the call and, where that succeeded, what
/// is to be recorded.
template <typename Call, typename Done>
auto counted(const char* name, const std::string& path, Call&& call, Done&& done) -> decltype(call()) {
  const std::lock_guard<std::mutex> lock(turn);
  if (fault_at(name, path) == Fault::kNone) {
    const auto result = call();
    const int error = errno;
    if constexpr (std::is_pointer_v<decltype(call())>) {
      if (result != nullptr) done(result);
    } else {
      if (result >= 0) done(result);
    }
    errno = error;
    return result;
  }
  errno = settings().error;
  if constexpr (std::is_pointer_v<decltype(call())>) {
    return nullptr;
  } else {
    return -1;
  }
}

template <typename Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

template <typename Call>
int opened(const std::string& path, int flags, Call&& call) {
  if ((flags & O_TMPFILE) == O_TMPFILE && settings().named_only) {
    errno = EOPNOTSUPP;
    return -1;
  }
  if (!matches(path)) return watch(call(), false);
  return counted(
      "open", path, [&] { return watch(call(), true); }, [&](int fd) { record_open(fd, path, flags); });
}

int flags_of(const char* mode) {
  const int created = mode[0] == 'w' ? O_CREAT | O_TRUNC : mode[0] == 'a' ? O_CREAT : 0;
  return created | (strchr(mode, 'x') != nullptr ? O_EXCL : 0);
}

template <typename Call>
FILE* opened_stream(const char* name, const char* mode, Call&& call) {
  const std::string path = resolved(AT_FDCWD, name);
  if (!matches(path)) {
    FILE* const file = call();
    if (file != nullptr) watch(fileno(file), false);
    return file;
  }
  return counted("open", path, call,
                 [&](FILE* file) { record_open(watch(fileno(file), true), path, flags_of(mode)); });
}

template <typename Call, typename Done>
ssize_t written(int fd, size_t bytes, Call&& call, Done&& done) {
  if (!matches(fd)) return call(bytes);
  const std::lock_guard<std::mutex> lock(turn);
  const Fault fault = fault_at("write", name_of(fd));
  if (fault == Fault::kError) {
    errno = settings().error;
    return -1;
  }
  const ssize_t result = call(fault == Fault::kShort ? (bytes + 1) / 2 : bytes);
  const int error = errno;
  if (result > 0) done(static_cast<size_t>(result));
  errno = error;
  return result;
}

template <typename Call>
int truncated(int fd, long length, Call&& call) {
  if (!matches(fd)) return call();
  return counted("truncate", name_of(fd), call,
                 [&](int) { record("truncate", text(fd) + "\t" + std::to_string(length)); });
}

template <typename Call>
int synced(int fd, Call&& call) {
  if (!matches(fd)) return call();
  return counted("fsync", name_of(fd), call, [&](int) { record("fsync", text(fd)); });
}

/// A call that changes names: `kind` is what counts, `what` what is recorded.
template <typename Call>
int renamed(const char* kind, const char* what, const std::string& from, const std::string& to, Call&& call) {
  if (!matches(to)) return call();
  return counted(kind, to, call, [&](int) { record(what, from.empty() ? to : from + "\t" + to); });
}

void closed(int fd) {
  if (!matches(fd)) return;
  const std::lock_guard<std::mutex> lock(turn);
  watch(fd, false);
  record("close", text(fd));
}

}  // namespace

#define NEXT(name) static const auto real = next(&::name, #name)

// Calls that exist for sizes of 64 bits too.
#define OPEN(name)                                                                           \
  int name(const char* path, int flags, ...) {                                               \
    NEXT(name);                                                                              \
    va_list arguments;                                                                       \
    va_start(arguments, flags);                                                              \
    const auto mode = va_arg(arguments, mode_t);                                             \
    va_end(arguments);                                                                       \
    return opened(resolved(AT_FDCWD, path), flags, [&] { return real(path, flags, mode); }); \
  }
#define OPEN_AT(name)                                                                              \
  int name(int folder, const char* path, int flags, ...) {                                         \
    NEXT(name);                                                                                    \
    va_list arguments;                                                                             \
    va_start(arguments, flags);                                                                    \
    const auto mode = va_arg(arguments, mode_t);                                                   \
    va_end(arguments);                                                                             \
    return opened(resolved(folder, path), flags, [&] { return real(folder, path, flags, mode); }); \
  }
#define OPEN_STREAM(name)                                               \
  FILE* name(const char* path, const char* mode) {                      \
    NEXT(name);                                                         \
    return opened_stream(path, mode, [&] { return real(path, mode); }); \
  }
#define WRITE_AT(name, place)                                           \
  ssize_t name(int fd, const void* data, size_t bytes, place offset) {  \
    NEXT(name);                                                         \
    return written(                                                     \
        fd, bytes, [&](size_t n) { return real(fd, data, n, offset); }, \
        [&](size_t n) { record_write(fd, data, n, offset); });          \
  }
#define TRUNCATE(name, size)                                        \
  int name(int fd, size length) noexcept {                          \
    NEXT(name);                                                     \
    return truncated(fd, length, [&] { return real(fd, length); }); \
  }
#define SYNC(name)                               \
  int name(int fd) {                             \
    NEXT(name);                                  \
    return synced(fd, [&] { return real(fd); }); \
  }
#define REMOVE(name)                                                                              \
  int name(const char* path) noexcept {                                                           \
    NEXT(name);                                                                                   \
    return renamed("unlink", "unlink", "", resolved(AT_FDCWD, path), [&] { return real(path); }); \
  }

extern "C" {

OPEN(open)
OPEN(open64)
OPEN_AT(openat)
OPEN_AT(openat64)
// Streams of the C++ library open and close their files in this way.
OPEN_STREAM(fopen)
OPEN_STREAM(fopen64)
WRITE_AT(pwrite, off_t)
WRITE_AT(pwrite64, off64_t)
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)
SYNC(fsync)
SYNC(fdatasync)
REMOVE(rmdir)
REMOVE(unlink)
REMOVE(remove)

int close(int fd) {
  NEXT(close);
  closed(fd);
  return real(fd);
}

int fclose(FILE* file) {
  NEXT(fclose);
  if (file != nullptr) closed(fileno(file));
  return real(file);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  NEXT(write);
  return written(
      fd, bytes, [&](size_t n) { return real(fd, data, n); },
      [&](size_t n) { record_write(fd, data, n, -1); });
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  NEXT(writev);
  const auto call = [&] { return real(fd, pieces, count); };
  if (!matches(fd)) return call();
  return counted("write", name_of(fd), call,
                 [&](ssize_t n) { record_write(fd, pieces, count, static_cast<size_t>(n)); });
}

// Counts where it is asked for by name alone.
int flock(int fd, int operation) noexcept {
  NEXT(flock);
  const auto call = [&] { return real(fd, operation); };
  if (settings().call != "flock" || !matches(fd)) return call();
  return counted("flock", name_of(fd), call, [](int) {});
}

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  return renamed("rename", "rename", resolved(AT_FDCWD, from), resolved(AT_FDCWD, to),
                 [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  NEXT(renameat);
  return renamed("rename", "rename", resolved(from_folder, from), resolved(to_folder, to),
                 [&] { return real(from_folder, from, to_folder, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  NEXT(renameat2);
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  if (exchange && settings().named_only) {
    errno = EINVAL;
    return -1;
  }
  return renamed("rename", exchange ? "exchange" : "rename", resolved(from_folder, from),
                 resolved(to_folder, to), [&] { return real(from_folder, from, to_folder, to, flags); });
}

int link(const char* from, const char* to) noexcept {
  NEXT(link);
  return renamed("link", "link", resolved(AT_FDCWD, from), resolved(AT_FDCWD, to),
                 [&] { return real(from, to); });
}

int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  NEXT(linkat);
  return renamed("link", "link", resolved(from_folder, from), resolved(to_folder, to),
                 [&] { return real(from_folder, from, to_folder, to, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  NEXT(mkdir);
  return renamed("mkdir", "mkdir", "", resolved(AT_FDCWD, path), [&] { return real(path, mode); });
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  NEXT(mkdirat);
  return renamed("mkdir", "mkdir", "", resolved(folder, path), [&] { return real(folder, path, mode); });
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  NEXT(unlinkat);
  return renamed("unlink", "unlink", "", resolved(folder, path), [&] { return real(folder, path, flags); });
}

// Names that are told by a number of zeros: a test can be there before the program.
ssize_t getrandom(void* data, size_t bytes, unsigned flags) {
  NEXT(getrandom);
  if (!settings().known_numbers) return real(data, bytes, flags);
  memset(data, 0, bytes);
  return static_cast<ssize_t>(bytes);
}

// Of MPI: a rank that has done its work and stops where all wait for one another.
int MPI_Finalize() {
  NEXT(MPI_Finalize);
  if (!variable("VENTRIS_FAULT_STOP_IN_FINALIZE").empty() &&
      variable("VENTRIS_FAULT_STOP_IN_FINALIZE") == variable("OMPI_COMM_WORLD_RANK")) {
    syscall(SYS_kill, getpid(), SIGSTOP);
  }
  return real();
}

}  // extern "C"
