// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "data/error.h"
#include "data/files/file_io.h"
#include "data/files/read_stream.h"

namespace ventris::data {

namespace {

// Messages of the child: this header, then `bytes` bytes.
enum class Kind : int32_t { kProgress, kResult, kError };
struct Header {
  Kind kind;
  int32_t error;  // an ErrorKind
  int64_t bytes;
};
static_assert(std::is_trivially_copyable_v<PrepareProgress>);

constexpr int kRepeatMs = 500;

constexpr std::string_view kWantOfMemory =
    "there is not enough memory to train the tokenizer; train it on fewer sentences (--tokenizer-sentences)";

// Of the child alone, for its end by exit() or std::terminate().
int the_pipe = -1;
const std::string* the_reason_of_exit = nullptr;

bool send_bytes(int fd, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::write(fd, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

/// One message at a time: threads of the library that run short of memory together report it together.
void send(int fd, Kind kind, ErrorKind error, const void* data, size_t bytes) {
  static std::mutex one_message;
  const Header header{kind, static_cast<int32_t>(error), static_cast<int64_t>(bytes)};
  const std::lock_guard lock(one_message);
  if (!send_bytes(fd, &header, sizeof(header)) || !send_bytes(fd, data, bytes)) ::_exit(1);
}

void send_text(int fd, Kind kind, ErrorKind error, const std::string& text) {
  send(fd, kind, error, text.data(), text.size());
}

void say_want_of_memory() {
  send(the_pipe, Kind::kError, ErrorKind::kUnavailable, kWantOfMemory.data(), kWantOfMemory.size());
}

bool is_want_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);  // of the stack of a thread
  return system != nullptr && system->code() == std::errc::resource_unavailable_try_again;
}

/// Reports the exception that is being handled.
void say_exception() {
  try {
    throw;
  } catch (const DataError& error) {
    send_text(the_pipe, Kind::kError, error.kind(), error.what());
  } catch (const std::exception& error) {
    if (is_want_of_memory(error)) return say_want_of_memory();
    send_text(the_pipe, Kind::kError, ErrorKind::kBadData,
              fmt::format("the tokenizer could not be trained: {}", error.what()));
  }
}

/// For an exception in a thread of the library, or where it must not throw.
[[noreturn]] void end_by_exception() {
  if (std::current_exception() != nullptr) say_exception();
  ::_exit(1);
}

void end_of_library() {
  send_text(the_pipe, Kind::kError, ErrorKind::kBadData, *the_reason_of_exit);
  ::_exit(1);
}

[[noreturn]] void be_the_preparing_child(int fd, pid_t parent, const std::string& reason_of_exit,
                                         const std::function<std::string(const ProgressCall&)>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  the_pipe = fd;
  the_reason_of_exit = &reason_of_exit;
  std::set_terminate(end_by_exception);
  try {
    if (std::atexit(end_of_library) != 0) throw std::bad_alloc();
    const std::string result = work([fd](const PrepareProgress& progress) {
      // The phase is a literal: an address that this process and its parent share.
      send(fd, Kind::kProgress, ErrorKind::kIo, &progress, sizeof(progress));
    });
    send_text(fd, Kind::kResult, ErrorKind::kIo, result);
  } catch (...) {
    say_exception();
  }
  ::_exit(0);
}

/// Reads exactly `bytes`, with calls of `waiting` meanwhile; false at the end of the pipe.
bool receive(int fd, void* data, size_t bytes, const std::function<void()>& waiting) {
  return read_stream(fd, data, bytes, [&] {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, kRepeatMs) == 0) waiting();
    return true;
  });
}

/// Ends the child with this object.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      wait();
    }
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

}  // namespace

std::string run_in_child(const std::function<std::string(const ProgressCall&)>& work,
                         const ProgressCall& progress, const std::string& reason_of_exit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    fail(ErrorKind::kIo, "cannot create a pipe: {}", system_reason(errno));
  }
  const FileHandle from(ends[0]);
  FileHandle to(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t id = ::fork();
  if (id == 0) be_the_preparing_child(to.fd(), parent, reason_of_exit, work);
  if (id < 0) {
    fail(ErrorKind::kIo,
         "cannot start a process to train the tokenizer: {}; raise the limits on processes "
         "(ulimit -u, pids.max) or on memory",
         system_reason(errno));
  }
  Child child(id);
  to.close();

  std::optional<PrepareProgress> last;
  const auto repeat = [&] {
    if (last && progress) progress(*last);
  };
  Header header{};
  while (receive(from.fd(), &header, sizeof(header), repeat)) {
    std::string text(static_cast<size_t>(header.bytes), '\0');
    if (!receive(from.fd(), text.data(), text.size(), repeat)) break;
    switch (header.kind) {
      case Kind::kProgress:
        last.emplace();
        std::memcpy(&*last, text.data(), sizeof(*last));
        repeat();
        break;
      case Kind::kResult:
        child.wait();
        return text;
      case Kind::kError:
        child.wait();
        throw DataError(static_cast<ErrorKind>(header.error), text);
    }
  }
  const int signal = child.wait();
  fail(ErrorKind::kUnavailable,
       "the process that trains the tokenizer {}, perhaps for want of memory: train on fewer sentences "
       "(--tokenizer-sentences), or free memory",
       signal != 0 ? fmt::format("was ended by signal {} ({})", signal, ::strsignal(signal))
                   : std::string("ended early"));
}

}  // namespace ventris::data
