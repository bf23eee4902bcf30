#include "data/files/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>

#include "data/error.h"
#include "data/files/file_io.h"

namespace ventris::data {

MappedFile::MappedFile(int fd, int64_t bytes, const std::string& path) : size_(static_cast<size_t>(bytes)) {
  address_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  if (address_ == MAP_FAILED) {
    fail(ErrorKind::kIo, "{}: cannot map {} bytes into memory: {}", path, size_, system_reason(errno));
  }
}

MappedFile::~MappedFile() {
  ::munmap(address_, size_);
}

void MappedFile::check(const void*, size_t) const {}

}  // namespace ventris::data
