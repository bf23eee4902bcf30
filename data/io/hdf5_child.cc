// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_contents.h"
#include "data/io/hdf5_handle.h"

namespace ventris::data {
namespace {

constexpr char kArgument[] = "--list-hdf5";
constexpr int kDescriptors = 3;  // the file, the pipe, /dev/null
constexpr rlim_t kSeconds = 5;   // of the processor; thousands of datasets take milliseconds

// The answer: one of these as soon as the child is confined, then the listing.
constexpr char kConfined = 'C';
constexpr char kCramped = 'M';  // limits of this process allow less memory or time than the child may need

/// The words that start this program, without its arguments: more than one if a dynamic linker was given it.
std::vector<std::string> the_program;

/// Signals that the library may cause. All others except SIGKILL are blocked in the child: those to the
/// process group, from mpirun or a terminal, are for the program.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ};

/// The soft limit on the processor's time sends SIGXCPU, the hard one SIGKILL, as from outside.
void limit_to(__rlimit_resource resource, rlim_t soft, rlim_t hard) {
  rlimit bound{};
  ::getrlimit(resource, &bound);
  bound = {.rlim_cur = std::min(bound.rlim_max, soft), .rlim_max = std::min(bound.rlim_max, hard)};
  ::setrlimit(resource, &bound);
}

/// Returns kConfined or kCramped.
char confine(size_t memory_bytes) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  rlimit time{};
  ::getrlimit(RLIMIT_CPU, &time);
  const bool cramped = !has_room(memory_bytes) || time.rlim_max <= kSeconds;
  if (const size_t space = address_space_bytes(); space > 0)
    limit_to(RLIMIT_AS, space + memory_bytes, space + memory_bytes);
  limit_to(RLIMIT_CPU, kSeconds, kSeconds + 1);
  limit_to(RLIMIT_CORE, 0, 0);
  limit_to(RLIMIT_FSIZE, 0, 0);
  limit_to(RLIMIT_NOFILE, kDescriptors, kDescriptors);
  ::prctl(PR_SET_NAME, "hdf5-reader");
  return cramped ? kCramped : kConfined;
}

bool answer(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

/// The variables that the loader and sanitizers read. Those of MPI would make the child one of the job.
std::vector<char*> environment_of_child() {
  std::vector<char*> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("LD_") || text.substr(0, text.find('=')).ends_with("SAN_OPTIONS"))
      kept.push_back(*variable);
  }
  kept.push_back(nullptr);
  return kept;
}

pid_t start_child(const std::string& path, int fd, int64_t bytes, int answer) {
  if (the_program.empty()) throw std::logic_error("main does not begin with list_hdf5_if_asked");
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, answer, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&files, kDescriptors);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t signals;
  ::sigfillset(&signals);
  ::posix_spawnattr_setsigdefault(&attributes, &signals);
  for (const int fault : kFaults) ::sigdelset(&signals, fault);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<std::string> words = the_program;
  words.insert(words.end(), {kArgument, std::to_string(bytes), path});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", &files, &attributes, arguments.data(),
                                  environment_of_child().data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    fail(ErrorKind::kIo,
         "{}: cannot start a process that reads it: {}; raise the limits on processes (ulimit -u, pids.max) "
         "or descriptors (ulimit -n)",
         path, system_reason(error));
  }
  return child;
}

/// Reads to the end of the pipe, or more than `max` bytes.
std::string read_answer(int fd, size_t max) {
  std::string answer;
  std::array<char, 1 << 16> piece{};
  while (answer.size() <= max) {
    const ssize_t done = ::read(fd, piece.data(), piece.size());
    if (done == 0) break;
    if (done > 0) answer.append(piece.data(), static_cast<size_t>(done));
  }
  return answer;
}

/// Ends a child that still runs, and returns its status; 0 if the system keeps none (SIGCHLD is ignored).
int end_of(pid_t child) {
  ::kill(child, SIGKILL);  // one that is ending keeps its status
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Throws the error of a child that did not end well, or whose answer is too long.
[[noreturn]] void fail_by(int status, const std::string& answer, bool too_long, const std::string& path) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  const std::string reason = too_long      ? "its answer is too long"
                             : number != 0 ? fmt::format("it ended with {}", ::strsignal(number))
                                           : "it ran out of memory";
  if (answer.starts_with(kCramped)) {
    fail(ErrorKind::kUnavailable,
         "{}: cannot be read within the limits on memory and time of the processor, which leave less than "
         "reading may take: {}. Raise them (ulimit -v, -d, -t); the file may be sound",
         path, reason);
  }
  if (number == SIGKILL && !too_long) {
    fail(ErrorKind::kIo,
         "{}: the process that reads it was ended by signal {} ({}) from outside, for example because the "
         "system is out of memory. The file is not the cause: start the same command again",
         path, number, ::strsignal(number));
  }
  if (answer.empty()) {
    fail(ErrorKind::kUnavailable,
         "{}: the process that reads it cannot start: {}. Raise the limits on memory (ulimit -v, -d) and "
         "descriptors (ulimit -n)",
         path, number != 0 ? reason : fmt::format("exit code {}", WEXITSTATUS(status)));
  }
  fail(ErrorKind::kBadData, "{}: the HDF5 library cannot read it safely: {}. It may be malicious", path,
       reason);
}

}  // namespace

void list_hdf5_if_asked(int argc, const char* const* argv) {
  if (argc != 4 || std::string_view(argv[1]) != kArgument) {
    std::ifstream words("/proc/self/cmdline");
    the_program.clear();
    for (std::string word; std::getline(words, word, '\0');) the_program.push_back(word);
    the_program.resize(the_program.size() - std::min(the_program.size(), static_cast<size_t>(argc - 1)));
    return;
  }
  const int64_t bytes = std::atoll(argv[2]);
  constexpr size_t kTablesBytes = size_t{64} << 20;  // of the library, and of the allocator
  const char confined = confine(4 * static_cast<size_t>(bytes) + kTablesBytes);
  try {
    const Hdf5Lock lock;
    ::_exit(answer({&confined, 1}) && answer(list_hdf5(argv[3], STDIN_FILENO, bytes)) ? 0 : 1);
  } catch (...) {  // out of memory, or a fault of ours
    ::_exit(1);
  }
}

std::string list_hdf5_in_child(const std::string& path, int fd, int64_t bytes) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(ErrorKind::kIo, "{}: cannot create a pipe: {}", path, system_reason(errno));
  const FileHandle from(ends[0]);
  FileHandle to(ends[1]);
  const pid_t child = start_child(path, fd, bytes, to.fd());
  to.close();
  const size_t max = 1 + 2 * static_cast<size_t>(bytes);  // of text that is quoted
  const std::string answer = read_answer(from.fd(), max);
  const int status = end_of(child);
  const bool too_long = answer.size() > max;
  if (status != 0 || too_long || answer.size() < 2) fail_by(status, answer, too_long, path);
  return answer.substr(1);
}

size_t address_space_bytes() {
  const FileHandle file(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  const ssize_t length = file.valid() ? ::read(file.fd(), text.data(), text.size()) : 0;
  size_t pages = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, pages);
  return pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

bool has_room(size_t bytes) {
  // Private and writable, which also counts for the limit on data.
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return false;
  ::munmap(base, bytes);
  return true;
}

}  // namespace ventris::data
