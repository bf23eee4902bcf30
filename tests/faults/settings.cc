// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace faults {
namespace {

constexpr int kMaxDescriptors = 4096;

int number_of_error(const std::string& name) {
  if (name == "ENOSPC") return ENOSPC;
  if (name == "EIO") return EIO;
  if (name == "EDQUOT") return EDQUOT;
  if (name == "EROFS") return EROFS;
  if (name == "EACCES") return EACCES;
  if (name == "ENOLCK") return ENOLCK;
  if (name == "ENOSYS") return ENOSYS;
  if (name == "ENOTSUP") return ENOTSUP;
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

}  // namespace

std::mutex turn;

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

const Settings& settings() {
  static const Settings read = read_settings();
  return read;
}

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

}  // namespace faults
