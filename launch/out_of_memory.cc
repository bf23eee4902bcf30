// SPDX-License-Identifier: Apache-2.0
#include "launch/out_of_memory.h"

#include <execinfo.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "backend/device/error.h"
#include "data/io/hdf5_child.h"

namespace ventris {
namespace {

std::terminate_handler handler_before = nullptr;

/// Allocates no memory. If several threads call it, only the first one reports.
[[noreturn]] void end(ExitCode code, const char* message) {
  static std::atomic_flag ending;
  while (ending.test_and_set()) ::pause();
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message, std::strlen(message));
  ::_exit(static_cast<int>(code));
}

[[noreturn]] void terminate_handler() {
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    end(ExitCode::kInternal,
        "ventris: error: out of memory in code that cannot recover; "
        "free memory, raise its limit (ulimit -v), or use fewer --threads or smaller batches\n");
  } catch (const std::system_error& error) {
    if (error.code().value() == EAGAIN || error.code().value() == ENOMEM) {
      end(ExitCode::kUnavailable,
          "ventris: error: the system cannot start another thread; raise its limits (ulimit -v, "
          "ulimit -u) or use fewer --threads\n");
    }
  } catch (...) {  // an internal error, reported by the previous handler
  }
  if (handler_before != nullptr) handler_before();
  std::abort();
}

}  // namespace

void install_out_of_memory_handler() {
  handler_before = std::set_terminate(terminate_handler);
  // The C library loads its unwinder at the first use, and aborts if it cannot.
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

std::string out_of_memory_text() {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  const std::string max = limit.rlim_cur == RLIM_INFINITY
                              ? std::string()
                              : fmt::format(" of the limit of {} MiB (ulimit -v)", limit.rlim_cur >> 20);
  return fmt::format(
      "out of memory: the process uses {} MiB of address space{}. "
      "Use a smaller model, smaller batches (--batch-source-tokens, --batch-target-tokens, --batch-rows, --rows), "
      "fewer --threads or fewer ranks on a host",
      data::address_space_bytes() >> 20, max);
}

}  // namespace ventris
