// SPDX-License-Identifier: Apache-2.0
#include "data/files/hdf5_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <stdexcept>
#include <type_traits>

#include "data/error.h"
#include "data/files/hdf5_handle.h"
#include "data/files/hdf5_listing.h"
#include "data/files/read_stream.h"

namespace ventris::data {
namespace {

constexpr char kName[] = "hdf5-reader";
constexpr int kSocket = 3;  // of the process; 0 to 2 are /dev/null
constexpr int kNoError = 0;

// Messages between the two, which are the same program: the bytes of these structs, then of the text. The
// descriptor of the file is sent with the first byte.
struct Request {
  ConfinedLimits limits;
  int64_t file_bytes;
  size_t path_bytes;
};
struct Reply {
  int error;  // an ErrorKind with the text as message, or kNoError
  bool complete;
  bool cramped;
  bool short_of_time;
  int killed_by;
  size_t text_bytes;
};
static_assert(std::is_trivially_copyable_v<Request> && std::is_trivially_copyable_v<Reply>);

std::atomic<Hdf5Process*> the_process = nullptr;

bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  return read_stream(socket, data, bytes, [] { return true; });
}

/// A request as a message with room for one descriptor.
class Message {
 public:
  explicit Message(Request& request) : part_{.iov_base = &request, .iov_len = sizeof(request)} {
    header_.msg_iov = &part_;
    header_.msg_iovlen = 1;
    header_.msg_control = ancillary_.data();
    header_.msg_controllen = ancillary_.size();
  }
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;
  msghdr* get() { return &header_; }

 private:
  iovec part_;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> ancillary_{};
  msghdr header_{};
};

bool send_request(int socket, const Request& request, const std::string& path, int fd) {
  Request copy = request;
  Message message(copy);
  cmsghdr* const header = CMSG_FIRSTHDR(message.get());
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ssize_t done = 0;
  do {
    done = ::sendmsg(socket, message.get(), MSG_NOSIGNAL);
  } while (done < 0 && errno == EINTR);
  if (done <= 0) return false;
  const auto sent = static_cast<size_t>(done);
  return send_all(socket, reinterpret_cast<const char*>(&copy) + sent, sizeof(copy) - sent) &&
         send_all(socket, path.data(), path.size());
}

/// False at the end of the socket. The descriptor is -1 if the process has reached its limit.
bool receive_request(int socket, Request& request, std::string& path, FileHandle& file) {
  Message message(request);
  ssize_t done = 0;
  do {
    done = ::recvmsg(socket, message.get(), MSG_CMSG_CLOEXEC);
  } while (done < 0 && errno == EINTR);
  if (done <= 0) return false;
  int fd = -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(message.get());
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(fd)))
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  file = FileHandle(fd);
  const auto received = static_cast<size_t>(done);
  if (!receive_all(socket, reinterpret_cast<char*>(&request) + received, sizeof(request) - received))
    return false;
  path.resize(request.path_bytes);
  return receive_all(socket, path.data(), path.size());
}

bool send_reply(int socket, Reply reply, const std::string& text) {
  reply.text_bytes = text.size();
  return send_all(socket, &reply, sizeof(reply)) && send_all(socket, text.data(), text.size());
}

bool send_failure(int socket, ErrorKind kind, const std::string& message) {
  Reply reply{};
  reply.error = static_cast<int>(kind);
  return send_reply(socket, reply, message);
}

/// Handles one file; false if the program is gone.
bool serve_one(int socket) {
  Request request;
  std::string path;
  FileHandle file(-1);
  if (!receive_request(socket, request, path, file)) return false;
  try {
    if (!file.valid()) {
      fail(ErrorKind::kIo,
           "a process that reads a file separately has too few descriptors; raise the limit (ulimit -n)");
    }
    request.limits.input = file.fd();
    const Hdf5Lock lock;
    const ConfinedAnswer answer =
        run_confined(request.limits, [&] { return list_hdf5(path, kConfinedInput, request.file_bytes); });
    file.close();
    const Reply reply = {.error = kNoError,
                         .complete = answer.complete,
                         .cramped = answer.cramped,
                         .short_of_time = answer.short_of_time,
                         .killed_by = answer.killed_by,
                         .text_bytes = 0};
    return send_reply(socket, reply, answer.text);
  } catch (const DataError& error) {
    return send_failure(socket, error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return send_failure(socket, ErrorKind::kUnavailable,
                        "out of memory in the process that reads it; raise its limit (ulimit -v)");
  }
}

[[noreturn]] void be_the_process(int socket, pid_t program, std::span<char> shown) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != program) ::_exit(0);  // it has already ended
  ::prctl(PR_SET_NAME, kName);
  ::clearenv();
  std::fill(shown.begin(), shown.end(), '\0');
  std::copy_n(kName, std::min(sizeof(kName) - 1, shown.size()), shown.begin());

  const int from = ::fcntl(socket, F_DUPFD, kSocket + 1);
  const int nowhere = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < kSocket; ++fd) {
    if (nowhere < 0 || ::dup2(nowhere, fd) < 0) ::close(fd);
  }
  if (::dup2(from >= 0 ? from : socket, kSocket) < 0) ::_exit(1);
  ::close_range(kSocket + 1, ~0U, 0);
  try {
    while (serve_one(kSocket)) {
    }
  } catch (...) {  // out of memory for a path: the program finds no reply
  }
  ::_exit(0);
}

}  // namespace

Hdf5Process::Hdf5Process(std::span<char> shown) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fault_ = "cannot create a socket: " + system_reason(errno);
  } else {
    socket_ = FileHandle(ends[0]);
    const FileHandle other(ends[1]);
    // Signals to the process group, from mpirun or a terminal, are only for the program.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t program = ::getpid();
    id_ = ::fork();
    if (id_ == 0) be_the_process(other.fd(), program, shown);
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (id_ < 0) {
      fault_ = fmt::format("cannot start a process: {}; raise the limits on processes (ulimit -u, pids.max)",
                           system_reason(error));
    }
  }
  before_ = the_process.exchange(this);
}

Hdf5Process::~Hdf5Process() {
  the_process = before_;
  if (id_ < 0 || ::waitpid(id_, nullptr, WNOHANG) != 0) return;  // none, or it has ended
  ::kill(id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Hdf5Process& Hdf5Process::of_program() {
  if (the_process == nullptr) throw std::logic_error("main made no Hdf5Process");
  return *the_process;
}

ConfinedAnswer Hdf5Process::list(const std::string& path, int fd, int64_t bytes,
                                 const ConfinedLimits& limits) {
  constexpr auto kMargin = std::chrono::seconds(30);  // the process itself may wait for a processor
  const std::lock_guard lock(mutex_);
  if (!fault_.empty()) fail(ErrorKind::kIo, "{}: {}", path, fault_);
  const auto longest = std::chrono::ceil<std::chrono::seconds>(limits.patience + kMargin);
  const timeval seconds = {.tv_sec = longest.count(), .tv_usec = 0};
  ::setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &seconds, sizeof(seconds));
  const Request request = {.limits = limits, .file_bytes = bytes, .path_bytes = path.size()};
  Reply reply{};
  std::string text;
  bool answered =
      send_request(socket_.fd(), request, path, fd) && receive_all(socket_.fd(), &reply, sizeof(reply));
  if (answered) {
    text.resize(reply.text_bytes);
    answered = receive_all(socket_.fd(), text.data(), text.size());
  }
  if (!answered) {
    socket_.close();
    fault_ =
        "the process of this program that reads HDF5 files is gone or does not respond; "
        "was it killed? Start the same command again";
    fail(ErrorKind::kIo, "{}: {}", path, fault_);
  }
  if (reply.error != kNoError) fail(static_cast<ErrorKind>(reply.error), "{}: {}", path, text);
  return {.complete = reply.complete,
          .text = std::move(text),
          .killed_by = reply.killed_by,
          .cramped = reply.cramped,
          .short_of_time = reply.short_of_time};
}

}  // namespace ventris::data
