// SPDX-License-Identifier: Apache-2.0
#include "data/files/confined_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "data/error.h"
#include "data/files/file_io.h"
#include "data/files/read_stream.h"

namespace ventris::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPipe = 3;            // the child's descriptor for its answer; 0 to 2 are /dev/null
constexpr int kMaxDescriptors = 5;  // one more file may be open
constexpr int kNotConfined = 2;     // exit code of a child with fewer

/// Signals that the work itself may cause. All others except SIGKILL are blocked in the child.
constexpr int kSignalsOfTheWork[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL, SIGABRT,
                                     SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ};

bool is_of_the_work(int number) {
  return std::find(std::begin(kSignalsOfTheWork), std::end(kSignalsOfTheWork), number) !=
         std::end(kSignalsOfTheWork);
}

void limit_to(int resource, rlim_t max) {
  rlimit bound{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &bound);
  bound.rlim_max = std::min(bound.rlim_max, max);
  bound.rlim_cur = bound.rlim_max;
  ::setrlimit(static_cast<__rlimit_resource>(resource), &bound);
}

rlim_t max_cpu_seconds() {
  rlimit bound{};
  ::getrlimit(RLIMIT_CPU, &bound);
  return bound.rlim_max;
}

/// The soft limit sends SIGXCPU, the hard limit SIGKILL, as from outside. A soft limit of 0 would end the
/// process at the next clock tick.
void limit_cpu_to(rlim_t seconds) {
  rlimit bound{};
  bound.rlim_max = std::min(max_cpu_seconds(), seconds + 1);
  bound.rlim_cur = std::max<rlim_t>(bound.rlim_max, 2) - 1;
  ::setrlimit(RLIMIT_CPU, &bound);
}

/// A fault of the child's own ends it as usual; a signal from another process ends it as SIGKILL does: then
/// the file is not the cause.
void tell_own_from_sent(int number, siginfo_t* signal, void*) {
  const bool sent = signal->si_code <= 0 && signal->si_pid != ::getpid();
  const int saved = errno;
  ::signal(number, SIG_DFL);
  ::kill(::getpid(), sent ? SIGKILL : number);  // which waits until this handler returns
  errno = saved;
}

/// False if the process cannot have the descriptors that it needs.
bool confine(int answer, const ConfinedLimits& limits) {
  // Handlers of this program, of MPI or of a sanitizer would report a crash that is expected here.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) ::sigaction(number, &standard, nullptr);
  struct sigaction telling {};
  telling.sa_sigaction = tell_own_from_sent;
  telling.sa_flags = SA_SIGINFO;
  for (const int own : kSignalsOfTheWork) ::sigaction(own, &telling, nullptr);
  // Signals to the process group, from mpirun or a terminal, are for this program, which ends the child
  // itself.
  sigset_t sent;
  ::sigfillset(&sent);
  for (const int own : kSignalsOfTheWork) ::sigdelset(&sent, own);
  ::sigprocmask(SIG_SETMASK, &sent, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);

  const size_t space = address_space_bytes();
  const int from = ::fcntl(answer, F_DUPFD, kMaxDescriptors);  // away from 0 to 3
  const int nowhere = ::open("/dev/null", O_RDWR);
  if (from < 0 || (nowhere < 0 && errno == EMFILE)) return false;
  const int input =
      limits.input >= 0 && limits.input <= kPipe ? ::fcntl(limits.input, F_DUPFD, kPipe + 1) : limits.input;
  if (limits.input >= 0 && input < 0) return false;
  for (int fd = 0; fd < kPipe; ++fd) {
    if (nowhere >= 0) {
      ::dup2(nowhere, fd);
    } else {
      ::close(fd);
    }
  }
  if (input >= 0) ::dup2(input, kConfinedInput);
  ::dup2(from, kPipe);
  ::close_range(kPipe + 1, ~0U, 0);

  if (space > 0) limit_to(RLIMIT_AS, space + limits.memory_bytes);
  limit_cpu_to(limits.cpu_seconds);
  limit_to(RLIMIT_CORE, 0);
  limit_to(RLIMIT_FSIZE, 0);
  limit_to(RLIMIT_NOFILE, kMaxDescriptors);
  return true;
}

bool write_answer(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(kPipe, at, bytes);
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

[[noreturn]] void be_the_confined_child(int answer, const ConfinedLimits& limits,
                                        const std::function<std::string()>& work) {
  bool told = false;
  try {
    if (!confine(answer, limits)) ::_exit(kNotConfined);
    const std::string text = work();
    const uint64_t length = text.size();
    told = write_answer(&length, sizeof(length)) && write_answer(text.data(), text.size());
  } catch (...) {
    told = false;  // out of memory, or a fault of ours: the parent finds no answer
  }
  ::_exit(told ? 0 : 1);
}

/// Reads exactly `bytes`; false at the end of the pipe, and after the deadline.
bool read_answer(int fd, void* data, size_t bytes, Clock::time_point deadline) {
  return read_stream(fd, data, bytes, [&] {
    pollfd waiting = {.fd = fd, .events = POLLIN, .revents = 0};
    int ready = -1;
    do {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      ready = left.count() <= 0 ? 0 : ::poll(&waiting, 1, static_cast<int>(left.count()));
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
  });
}

std::string reason_of_death(int status) {
  if (!WIFSIGNALED(status)) return "it ran out of memory";
  const int number = WTERMSIG(status);
  return number == SIGXCPU ? "it took too long" : fmt::format("it ended with {}", ::strsignal(number));
}

/// Whether a child whose pipe is closed ends by itself: immediately, unless it closed the pipe and continues.
bool ends_soon(pid_t child) {
  constexpr auto kSoon = std::chrono::seconds(1);
  constexpr int kLookEveryMs = 5;
  const Clock::time_point deadline = Clock::now() + kSoon;
  do {
    siginfo_t ended{};
    const int rc = ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    if (rc != 0 || ended.si_pid == child) return true;
    ::poll(nullptr, 0, kLookEveryMs);
  } while (Clock::now() < deadline);
  return false;
}

}  // namespace

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

ConfinedAnswer run_confined(const ConfinedLimits& limits, const std::function<std::string()>& work) {
  const Clock::time_point deadline = Clock::now() + limits.patience;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(ErrorKind::kIo, "cannot create a pipe: {}", system_reason(errno));
  }
  const FileHandle from(ends[0]);
  FileHandle to(ends[1]);
  // In effect in the child until it has its own handlers.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child == 0) be_the_confined_child(to.fd(), limits, work);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (child < 0)
    fail(ErrorKind::kIo, "cannot start a process: {}; raise the limits on processes (ulimit -u, pids.max)",
         system_reason(error));
  to.close();

  ConfinedAnswer answer;
  answer.cramped = !has_room(limits.memory_bytes);
  answer.short_of_time = max_cpu_seconds() <= limits.cpu_seconds;
  uint64_t length = 0;
  const bool begun = read_answer(from.fd(), &length, sizeof(length), deadline);
  const bool too_long = begun && length > limits.answer_bytes;
  if (begun && !too_long) {
    answer.text.resize(length);
    answer.complete = read_answer(from.fd(), answer.text.data(), length, deadline);
  }
  const bool too_late = !answer.complete && !too_long && Clock::now() >= deadline;
  const bool stays = !answer.complete && !too_long && !too_late && !ends_soon(child);
  // It may still wait: to write the rest, for a lock, or because of a hostile file. A child that is ending
  // keeps its status.
  ::kill(child, SIGKILL);
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  // If the process ignores SIGCHLD there is no status; then the answer decides.
  if (too_long) {
    answer.text = "its answer is too long";
  } else if (too_late) {
    answer.text =
        fmt::format("it did not answer in {:g} s", std::chrono::duration<double>(limits.patience).count());
  } else if (stays) {
    answer.text = "it did not answer and did not end";
  } else if (!answer.complete) {
    if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == kNotConfined) {
      fail(ErrorKind::kIo,
           "a process that reads a file separately has too few descriptors; raise the limit (ulimit -n)");
    }
    answer.text = ended == child ? reason_of_death(status) : "it ended early";
    if (ended == child && WIFSIGNALED(status) && !is_of_the_work(WTERMSIG(status))) {
      answer.killed_by = WTERMSIG(status);
    }
  }
  return answer;
}

}  // namespace ventris::data
