// A library for LD_PRELOAD that makes file calls of a program fail, or kills it there; tests/faults/README.md
// tells how to use it.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>
#include <type_traits>

namespace {

constexpr int kMostDescriptors = 4096;

enum class Fault { kNone, kError, kShort, kKill, kWait };

struct Settings {
  std::string prefix;   // of paths whose calls count; empty: the library does nothing
  std::string call;     // "any", or the one kind that counts
  long at = 0;          // the number of the call at which it happens, from 1; 0: never
  bool sticky = false;  // and at every later call of the kind
  Fault fault = Fault::kNone;
  int error = 0;       // errno
  long seconds = 0;    // that a call takes longer; 0: it never ends
  std::string log;     // file to which every call that counts is appended
  std::string victim;  // file with the process id to kill; empty: this process
};

int number_of_error(const std::string& name) {
  if (name == "ENOSPC") return ENOSPC;
  if (name == "EIO") return EIO;
  if (name == "EDQUOT") return EDQUOT;
  if (name == "EROFS") return EROFS;
  if (name == "EACCES") return EACCES;
  return 0;
}

std::string variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

void write_raw(const char* path, int flags, const std::string& text) {
  const long fd = syscall(SYS_openat, AT_FDCWD, path, flags | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  syscall(SYS_write, fd, text.data(), text.size());
  syscall(SYS_close, fd);
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

// Held from the count of a call to its end: when a call is counted, those before it are done.
std::mutex turn;
long calls = 0;
std::atomic<bool> watched[kMostDescriptors];
const pid_t process = getpid();  // children that it makes are left alone

bool matches(const char* path) {
  const std::string& prefix = settings().prefix;
  return getpid() == process && !prefix.empty() && path != nullptr &&
         strncmp(path, prefix.c_str(), prefix.size()) == 0;
}

bool matches(int fd) {
  return fd >= 0 && fd < kMostDescriptors && watched[fd].load() && getpid() == process;
}

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

/// Counts a call, by the holder of `turn`. What is to become of it.
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

/// For calls that write nothing, of which no part can be done: fails with errno, or returns what the call
/// does.
template <typename Call>
auto counted(const char* name, const std::string& path, Call&& call) -> decltype(call()) {
  const std::lock_guard<std::mutex> lock(turn);
  if (fault_at(name, path) == Fault::kNone) return call();
  errno = settings().error;
  if constexpr (std::is_pointer_v<decltype(call())>) {
    return nullptr;
  } else {
    return -1;
  }
}

/// The path under which the file is found now.
std::string name_of(int fd) {
  char path[PATH_MAX];
  const ssize_t bytes = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof(path));
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : "descriptor " + std::to_string(fd);
}

template <typename Function>
Function next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

int watch(int fd, bool on) {
  if (fd >= 0 && fd < kMostDescriptors) watched[fd] = on;
  return fd;
}

template <typename Call>
int opened(const char* path, Call&& call) {
  if (!matches(path)) return watch(call(), false);
  return counted("open", path, [&] { return watch(call(), true); });
}

template <typename Call>
FILE* opened_stream(const char* path, Call&& call) {
  const bool counts = matches(path);
  FILE* const file = counts ? counted("open", path, call) : call();
  if (file != nullptr) watch(fileno(file), counts);
  return file;
}

template <typename Call>
ssize_t written(int fd, size_t bytes, Call&& call) {
  if (!matches(fd)) return call(bytes);
  const std::lock_guard<std::mutex> lock(turn);
  switch (fault_at("write", name_of(fd))) {
    case Fault::kError:
      errno = settings().error;
      return -1;
    case Fault::kShort:
      return call((bytes + 1) / 2);
    default:
      return call(bytes);
  }
}

}  // namespace

#define NEXT(name) static const auto real = next(&::name, #name)
#define MODE                                   \
  va_list arguments;                           \
  va_start(arguments, flags);                  \
  const auto mode = va_arg(arguments, mode_t); \
  va_end(arguments)

extern "C" {

int open(const char* path, int flags, ...) {
  NEXT(open);
  MODE;
  return opened(path, [&] { return real(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  NEXT(open64);
  MODE;
  return opened(path, [&] { return real(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  NEXT(openat);
  MODE;
  return opened(path, [&] { return real(folder, path, flags, mode); });
}

int openat64(int folder, const char* path, int flags, ...) {
  NEXT(openat64);
  MODE;
  return opened(path, [&] { return real(folder, path, flags, mode); });
}

// Streams of the C++ library open and close their files in this way.
FILE* fopen(const char* path, const char* mode) {
  NEXT(fopen);
  return opened_stream(path, [&] { return real(path, mode); });
}

FILE* fopen64(const char* path, const char* mode) {
  NEXT(fopen64);
  return opened_stream(path, [&] { return real(path, mode); });
}

int close(int fd) {
  NEXT(close);
  watch(fd, false);
  return real(fd);
}

int fclose(FILE* file) {
  NEXT(fclose);
  if (file != nullptr) watch(fileno(file), false);
  return real(file);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  NEXT(write);
  return written(fd, bytes, [&](size_t n) { return real(fd, data, n); });
}

ssize_t writev(int fd, const struct iovec* pieces, int count) {
  NEXT(writev);
  const auto call = [&] { return real(fd, pieces, count); };
  return matches(fd) ? counted("write", name_of(fd), call) : call();
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  NEXT(pwrite);
  return written(fd, bytes, [&](size_t n) { return real(fd, data, n, offset); });
}

ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t offset) {
  NEXT(pwrite64);
  return written(fd, bytes, [&](size_t n) { return real(fd, data, n, offset); });
}

int ftruncate(int fd, off_t length) noexcept {
  NEXT(ftruncate);
  const auto call = [&] { return real(fd, length); };
  return matches(fd) ? counted("truncate", name_of(fd), call) : call();
}

int ftruncate64(int fd, off64_t length) noexcept {
  NEXT(ftruncate64);
  const auto call = [&] { return real(fd, length); };
  return matches(fd) ? counted("truncate", name_of(fd), call) : call();
}

int fsync(int fd) {
  NEXT(fsync);
  const auto call = [&] { return real(fd); };
  return matches(fd) ? counted("fsync", name_of(fd), call) : call();
}

int fdatasync(int fd) {
  NEXT(fdatasync);
  const auto call = [&] { return real(fd); };
  return matches(fd) ? counted("fsync", name_of(fd), call) : call();
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

int rename(const char* from, const char* to) noexcept {
  NEXT(rename);
  const auto call = [&] { return real(from, to); };
  return matches(to) ? counted("rename", to, call) : call();
}

int unlink(const char* path) noexcept {
  NEXT(unlink);
  const auto call = [&] { return real(path); };
  return matches(path) ? counted("unlink", path, call) : call();
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  NEXT(unlinkat);
  const auto call = [&] { return real(folder, path, flags); };
  return matches(path) ? counted("unlink", path, call) : call();
}

int remove(const char* path) noexcept {
  NEXT(remove);
  const auto call = [&] { return real(path); };
  return matches(path) ? counted("unlink", path, call) : call();
}

}  // extern "C"
