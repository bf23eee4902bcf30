// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/harness.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "backend/device/error.h"
#include "data/error.h"
#include "tests/fuzz/memory_limit.h"

namespace ventris::fuzz {

namespace fs = std::filesystem;

void run(const Harness& harness, std::string_view bytes) {
  const MemoryLimit limit(memory_limit(bytes.size()));
  try {
    harness.run(bytes);
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) throw;
  } catch (const data::DataError&) {
  }
}

InputFile::InputFile(std::string_view bytes) {
  // In memory where that is a folder; the HDF5 library wants a path that resolves.
  const fs::path memory = "/dev/shm";
  path_ = ((fs::is_directory(memory) ? memory : fs::temp_directory_path()) / "ventris-fuzz-XXXXXX").string();
  const int fd = ::mkstemp(path_.data());
  if (fd < 0) std::abort();
  for (size_t written = 0; written < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + written, bytes.size() - written);
    if (n <= 0) std::abort();
    written += static_cast<size_t>(n);
  }
  ::close(fd);
}

InputFile::~InputFile() {
  ::unlink(path_.c_str());
}

}  // namespace ventris::fuzz
