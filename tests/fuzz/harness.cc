#include "tests/fuzz/harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "backend/error.h"
#include "data/error.h"
#include "tests/fuzz/memory_limit.h"

namespace ventris::fuzz {

void run(const Harness& harness, std::string_view bytes) {
  const MemoryLimit limit(memory_limit(bytes.size()));
  try {
    harness.run(bytes);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) throw;
  } catch (const data::DataError&) {
  }
}

MemoryFile::MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
  if (fd_ < 0) std::abort();
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t n = ::write(fd_, bytes.data() + written, bytes.size() - written);
    if (n <= 0) std::abort();
    written += static_cast<size_t>(n);
  }
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}

MemoryFile::~MemoryFile() {
  ::close(fd_);
}

}  // namespace ventris::fuzz
