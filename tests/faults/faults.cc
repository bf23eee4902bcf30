// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that makes file calls of a program fail, kills it there, or records what they did;
// tests/faults/README.md tells how to use it.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

namespace {

constexpr int kMaxDescriptors = 4096;

enum class Fault { kNone, kError, kShort, kKill, kWait };

struct Settings {
  std::string prefix;   // of paths whose calls count; empty: the library does nothing
  std::string call;     // "any", or the one kind that counts
  long at = 0;          // the number of the call at which it happens, from 1; 0: never
  bool sticky = false;  // and at every later call of the kind
  Fault fault = Fault::kNone;
  int error = 0;               // errno
  long seconds = 0;            // that a call takes longer; 0: it never ends
  std::string log;             // file to which every call that counts is appended
  std::string victim;          // file with the process id to kill; empty: this process
  std::string record;          // folder for what the calls did
  bool named_only = false;     // there are no files without names
  bool known_numbers = false;  // instead of random ones
};

std::string variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

/// Appends to a file, or begins it anew, past all that is watched.
void write_raw(const char* path, int flags, const std::string& text) {
  const long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  syscall(SYS_write, fd, text.data(), text.size());
  syscall(SYS_close, fd);
}

int number_of_error(const std::string& name) {
  const std::pair<const char*, int> known[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},       {"EDQUOT", EDQUOT},
                                               {"EROFS", EROFS},   {"ENOLCK", ENOLCK}, {"ENOSYS", ENOSYS}};
  for (const auto& [word, error] : known) {
    if (name == word) return error;
  }
  return 0;
}

Settings read_settings() {
  Settings settings;
  const std::string rank = variable("OMPI_COMM_WORLD_RANK");
  const std::string pids = variable("VENTRIS_FAULT_PIDS");
  if (!pids.empty() && !rank.empty()) {
    write_raw((pids + "." + rank).c_str(), O_WRONLY | O_TRUNC, std::to_string(getpid()));
  }
  const std::string wanted = variable("VENTRIS_FAULT_RANK");
  if (!wanted.empty() && rank != wanted) return settings;
  settings.prefix = variable("VENTRIS_FAULT_PREFIX");
  settings.call = variable("VENTRIS_FAULT_CALL");
  settings.at = atol(variable("VENTRIS_FAULT_AT").c_str());
  settings.sticky = !variable("VENTRIS_FAULT_STICKY").empty();
  settings.log = variable("VENTRIS_FAULT_LOG");
  settings.record = variable("VENTRIS_FAULT_RECORD");
  settings.named_only = !variable("VENTRIS_FAULT_NAMED_ONLY").empty();
  settings.known_numbers = !variable("VENTRIS_FAULT_KNOWN_NUMBERS").empty();
  const std::string victim = variable("VENTRIS_FAULT_VICTIM");
  if (!victim.empty()) settings.victim = pids + "." + victim;
  std::string what = variable("VENTRIS_FAULT");
  settings.seconds = atol(variable("VENTRIS_FAULT_SECONDS").c_str());
  if (what == "wait") {
    settings.fault = Fault::kWait;
  } else if (what == "kill") {
    settings.fault = Fault::kKill;
  } else if (what.rfind("short-", 0) == 0) {
    settings.fault = Fault::kShort;
    what = what.substr(6);
  } else if (!what.empty()) {
    settings.fault = Fault::kError;
  }
  settings.error = number_of_error(what);
  return settings;
}

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

// Ranks that make no such call still leave their process id.
__attribute__((constructor)) void start() {
  settings();
}

long calls = 0;
std::atomic<bool> watched[kMaxDescriptors];
const pid_t process = getpid();

[[noreturn]] void die() {
  syscall(SYS_kill, getpid(), SIGKILL);
  while (true) pause();
}

void kill_victim() {
  const long fd = syscall(SYS_openat, AT_FDCWD, settings().victim.c_str(), O_RDONLY | O_CLOEXEC, 0);
  char text[32] = {};
  if (fd >= 0 && syscall(SYS_read, fd, text, sizeof(text) - 1) > 0) syscall(SYS_kill, atoi(text), SIGKILL);
  if (fd >= 0) syscall(SYS_close, fd);
}

/// Held from the count of a call to its end: when a call is counted, those before it are done.
std::mutex turn;

bool matches(const std::string& path) {
  const std::string& prefix = settings().prefix;
  return getpid() == process && !prefix.empty() && path.compare(0, prefix.size(), prefix) == 0;
}

bool matches(int fd) {
  return fd >= 0 && fd < kMaxDescriptors && watched[fd].load() && getpid() == process;
}

int watch(int fd, bool on) {
  if (fd >= 0 && fd < kMaxDescriptors) watched[fd] = on;
  return fd;
}

Fault fault_at(const char* call, const std::string& path) {
  const Settings& s = settings();
  if (!s.call.empty() && s.call != "any" && s.call != call) return Fault::kNone;
  const long number = ++calls;
  if (!s.log.empty()) write_raw(s.log.c_str(), O_WRONLY | O_APPEND, std::string(call) + " " + path + "\n");
  const bool later = number > s.at && (s.sticky || (s.fault == Fault::kShort && number == s.at + 1));
  if (s.at <= 0 || (number != s.at && !later)) return Fault::kNone;
  if (s.fault == Fault::kWait) {
    const timespec time = {s.seconds > 0 ? s.seconds : 3600, 0};
    do nanosleep(&time, nullptr);
    while (s.seconds <= 0);
    return Fault::kNone;
  }
  if (s.fault == Fault::kKill) {
    if (s.victim.empty()) die();
    kill_victim();
    return Fault::kNone;
  }
  return s.fault == Fault::kShort && number > s.at ? Fault::kError : s.fault;
}

std::string name_of(int fd) {
  char path[PATH_MAX];
  const ssize_t bytes = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : "descriptor " + std::to_string(fd);
}

std::string resolved(int folder, const char* path) {
  if (path == nullptr) return "";
  if (path[0] == '/') return path;
  char cwd[PATH_MAX] = "";
  const std::string base = folder != AT_FDCWD                    ? name_of(folder)
                           : getcwd(cwd, sizeof(cwd)) != nullptr ? std::string(cwd)
                                                                 : std::string();
  return base + "/" + path;
}

// What the calls did, for tests/cli/power_loss.py. All by the holder of `turn`, after the call.

/// Appends a line to the file `calls` of VENTRIS_FAULT_RECORD: the thread, the kind of call, and its
/// arguments, with tabs between.
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

/// Bytes that were written, to the file `data` besides. An offset of -1: those before the place where the
/// file stands now.
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
                 [&](int) { record("truncate", std::to_string(fd) + "\t" + std::to_string(length)); });
}

template <typename Call>
int synced(int fd, Call&& call) {
  if (!matches(fd)) return call();
  return counted("fsync", name_of(fd), call, [&](int) { record("fsync", std::to_string(fd)); });
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
  record("close", std::to_string(fd));
}

}  // namespace

#define NEXT(name) static const auto real = next(&::name, #name)

// Calls that exist for sizes of 64 bits too.
#define OPEN(name, parameters, resolve, ...)                                       \
  int name parameters {                                                            \
    NEXT(name);                                                                    \
    va_list arguments;                                                             \
    va_start(arguments, flags);                                                    \
    const auto mode = va_arg(arguments, mode_t);                                   \
    va_end(arguments);                                                             \
    return opened(resolve, flags, [&] { return real(__VA_ARGS__, flags, mode); }); \
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

// clang-format off
OPEN(open, (const char* path, int flags, ...), resolved(AT_FDCWD, path), path)
OPEN(open64, (const char* path, int flags, ...), resolved(AT_FDCWD, path), path)
OPEN(openat, (int folder, const char* path, int flags, ...), resolved(folder, path), folder, path)
OPEN(openat64, (int folder, const char* path, int flags, ...), resolved(folder, path), folder, path)
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
// clang-format on

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
