// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_descriptor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "data/io/digest.h"
#include "data/io/file_io.h"
#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>  // since 1.14
#endif

// A driver of the HDF5 library. Its own drivers open a file by name, and fail for /proc/self/fd/N of an
// unnamed file.

namespace ventris::data {
namespace {

constexpr haddr_t kMaxBytes = (haddr_t{1} << 62) - 1;

struct Properties {
  int fd;
  CheckedReads reads;
};

/// Starts, as the library requires, with the common part of all drivers.
struct File {
  H5FD_t common;
  int fd;
  CheckedReads reads;
  haddr_t allocated;  // bytes that the library has allocated
  haddr_t end;        // of the file, as known to this driver
};

File& of(H5FD_t* file) {
  return *reinterpret_cast<File*>(file);
}
const File& of(const H5FD_t* file) {
  return *reinterpret_cast<const File*>(file);
}

/// Stores the reason for hdf5_reason().
herr_t failed(const std::string& reason) {
  H5Epush2(H5E_DEFAULT, __FILE__, "descriptor", 0, H5E_ERR_CLS, H5E_VFL, H5E_WRITEERROR,
           "error message = '%s'", reason.c_str());
  return -1;
}

H5FD_t* open_file(const char*, unsigned, hid_t access, haddr_t) {
  const auto* const properties = static_cast<const Properties*>(H5Pget_driver_info(access));
  struct stat status {};
  if (properties == nullptr || ::fstat(properties->fd, &status) != 0) {
    failed(system_reason(properties == nullptr ? EBADF : errno));
    return nullptr;
  }
  auto file = std::make_unique<File>();
  file->fd = properties->fd;
  file->reads = properties->reads;
  const DigestTree* const tree = file->reads.tree;
  file->end = static_cast<haddr_t>(tree != nullptr ? tree->end() : status.st_size);
  return reinterpret_cast<H5FD_t*>(file.release());
}

herr_t close_file(H5FD_t* file) {
  delete &of(file);
  return 0;
}

int compare(const H5FD_t* a, const H5FD_t* b) {
  return of(a).fd < of(b).fd ? -1 : static_cast<int>(of(a).fd > of(b).fd);
}

/// Those of the library's own file driver, so that the layout is the same.
herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t allocated(const H5FD_t* file, H5FD_mem_t) {
  return of(file).allocated;
}

herr_t set_allocated(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).allocated = address;
  return 0;
}

haddr_t end_of_file(const H5FD_t* file, H5FD_mem_t) {
  return of(file).end;
}

/// As read(). The bytes of the user block, in which the library looks for its own, are zero.
herr_t read_checked(const File& file, haddr_t address, size_t bytes, void* data) {
  std::memset(data, 0, bytes);
  const haddr_t begin = std::max(address, static_cast<haddr_t>(kUserBlockBytes));
  const haddr_t end = std::min(address + bytes, file.end);
  if (begin >= end) return 0;
  try {
    file.reads.tree->read(static_cast<int64_t>(begin), static_cast<char*>(data) + (begin - address),
                          static_cast<int64_t>(end - begin));
    return 0;
  } catch (const std::exception& error) {
    if (file.reads.damage->empty()) *file.reads.damage = error.what();
    return failed("its bytes are not those of their digests");
  }
}

/// Bytes after the end of the file are zero.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t bytes, void* data) {
  if (of(file).reads.tree != nullptr) return read_checked(of(file), address, bytes, data);
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t done = ::pread(of(file).fd, to, bytes, static_cast<off_t>(address));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(system_reason(errno));
    if (done == 0) break;
    to += done;
    address += static_cast<haddr_t>(done);
    bytes -= static_cast<size_t>(done);
  }
  std::memset(to, 0, bytes);
  return 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, size_t bytes, const void* data) {
  const std::string reason =
      write_all(of(file).fd, data, static_cast<int64_t>(bytes), static_cast<int64_t>(address));
  if (!reason.empty()) return failed(reason);
  of(file).end = std::max(of(file).end, address + bytes);
  return 0;
}

herr_t truncate(H5FD_t* file, hid_t, hbool_t) {
  if (of(file).end == of(file).allocated) return 0;
  if (::ftruncate(of(file).fd, static_cast<off_t>(of(file).allocated)) != 0) {
    return failed(system_reason(errno));
  }
  of(file).end = of(file).allocated;
  return 0;
}

hid_t driver() {
  static const hid_t id = [] {
    static H5FD_class_t all{};
#ifdef H5FD_CLASS_VERSION
    all.version = H5FD_CLASS_VERSION;
    all.value = H5_VFD_RESERVED + 1;  // from the range for tests and unpublished drivers
#endif
    all.name = "descriptor";
    all.maxaddr = kMaxBytes;
    all.fc_degree = H5F_CLOSE_WEAK;
    all.fapl_size = sizeof(Properties);
    all.open = open_file;
    all.close = close_file;
    all.cmp = compare;
    all.query = query;
    all.get_eoa = allocated;
    all.set_eoa = set_allocated;
    all.get_eof = end_of_file;
    all.read = read;
    all.write = write;
    all.truncate = truncate;
    constexpr H5FD_mem_t kMap[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(kMap), std::end(kMap), std::begin(all.fl_map));
    return H5FDregister(&all);
  }();
  return id;
}

}  // namespace

void use_descriptor(hid_t access, int fd, const CheckedReads& reads) {
  const Properties properties{fd, reads};
  H5Pset_driver(access, driver(), &properties);
}

}  // namespace ventris::data
