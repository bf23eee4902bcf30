// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <system_error>

#include "data/error.h"
#include "data/files/file_io.h"

namespace ventris::data {

namespace {

constexpr int kRepeatMs = 500;

// The answer of the child: one of these or the exit code of an error, then the result or the message.
constexpr char kResult = 0;

constexpr std::string_view kWantOfMemory =
    "there is not enough memory to train the tokenizer; train it on fewer sentences (--tokenizer-sentences)";

/// In memory that the child shares. `phase` is a literal: an address that both processes have.
struct SharedProgress {
  std::atomic<const char*> phase;  // null: nothing is known yet
  std::atomic<int64_t> pairs, bytes, all_bytes;

  void set(const PrepareProgress& progress) {
    pairs = progress.pairs;
    bytes = progress.bytes;
    all_bytes = progress.all_bytes;
    phase = progress.phase;
  }
  void report_to(const ProgressCall& call) const {
    if (phase != nullptr && call) call({phase, pairs, bytes, all_bytes});
  }
};

// Of the child alone, for its end by exit() or std::terminate().
int the_pipe = -1;
const std::string* the_reason_of_exit = nullptr;

/// Ends the child. The first call is the answer: threads of the library that run short of memory together
/// report it together, and the others wait for the end.
[[noreturn]] void end_with(char kind, std::string_view text) {
  static std::mutex first;
  first.lock();
  const std::string message = kind + std::string(text);
  for (size_t at = 0; at < message.size();) {
    const ssize_t done = ::write(the_pipe, message.data() + at, message.size() - at);
    if (done <= 0 && errno != EINTR) break;
    at += done > 0 ? static_cast<size_t>(done) : 0;
  }
  ::_exit(0);
}

[[noreturn]] void end_with(ErrorKind kind, std::string_view text) {
  end_with(static_cast<char>(kind), text);
}

bool is_want_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);  // of the stack of a thread
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

/// Ends the child with the exception that is being handled: also one in a thread of the library, or where it
/// must not throw.
[[noreturn]] void end_by_exception() {
  if (std::current_exception() == nullptr) ::_exit(1);
  try {
    throw;
  } catch (const DataError& error) {
    end_with(error.kind(), error.what());
  } catch (const std::exception& error) {
    if (is_want_of_memory(error)) end_with(ErrorKind::kUnavailable, kWantOfMemory);
    end_with(ErrorKind::kBadData, fmt::format("the tokenizer could not be trained: {}", error.what()));
  }
}

void end_of_library() {
  end_with(ErrorKind::kBadData, *the_reason_of_exit);
}

[[noreturn]] void be_the_preparing_child(int fd, pid_t parent, const std::string& reason_of_exit,
                                         SharedProgress& shared,
                                         const std::function<std::string(const ProgressCall&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  the_pipe = fd;
  the_reason_of_exit = &reason_of_exit;
  std::set_terminate(end_by_exception);
  try {
    if (std::atexit(end_of_library) != 0) throw std::bad_alloc();
    end_with(kResult, work([&](const PrepareProgress& progress) { shared.set(progress); }));
  } catch (...) {
    end_by_exception();
  }
}

/// Ends the child with this object.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The signal that ended it, or 0.
  int wait() {
    int status = 0;
    pid_t ended = 0;
    do {
      ended = ::waitpid(id_, &status, 0);
    } while (ended < 0 && errno == EINTR);
    id_ = -1;
    return ended > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  pid_t id_;
};

/// Reads to the end of the pipe, with calls of `waiting` meanwhile.
std::string wait_for_answer(int fd, const std::function<void()>& waiting) {
  std::string answer;
  std::array<char, 1 << 16> piece{};
  for (;;) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, kRepeatMs) == 0) waiting();
    const ssize_t done = ::read(fd, piece.data(), piece.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return answer;
    answer.append(piece.data(), static_cast<size_t>(done));
  }
}

}  // namespace

std::string run_in_child(const std::function<std::string(const ProgressCall&)>& work,
                         const ProgressCall& progress, const std::string& reason_of_exit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    fail(ErrorKind::kIo, "cannot create a pipe: {}", system_reason(errno));
  const FileHandle from(ends[0]);
  FileHandle to(ends[1]);
  void* const memory =
      ::mmap(nullptr, sizeof(SharedProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  const auto unmap = [](SharedProgress* shared) { ::munmap(shared, sizeof(*shared)); };
  const std::unique_ptr<SharedProgress, decltype(unmap)> shared(new (memory) SharedProgress{}, unmap);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id == 0) be_the_preparing_child(to.fd(), parent, reason_of_exit, *shared, work);
  if (id < 0) {
    fail(ErrorKind::kIo,
         "cannot start a process to train the tokenizer: {}; raise the limits on processes "
         "(ulimit -u, pids.max) or on memory",
         system_reason(errno));
  }
  Child child(id);
  to.close();
  const std::string answer = wait_for_answer(from.fd(), [&] { shared->report_to(progress); });
  shared->report_to(progress);
  const int signal = child.wait();
  if (answer.empty() || signal != 0) {
    fail(ErrorKind::kUnavailable,
         "the process that trains the tokenizer {}, perhaps for want of memory: train on fewer sentences "
         "(--tokenizer-sentences), or free memory",
         signal != 0 ? fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal))
                     : std::string("ended early"));
  }
  if (answer.front() == kResult) return answer.substr(1);
  throw DataError(static_cast<ErrorKind>(answer.front()), answer.substr(1));
}

}  // namespace ventris::data
