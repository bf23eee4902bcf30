// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "data/error.h"
#include "data/io/atomic_file.h"
#include "data/io/digest.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_child.h"
#include "data/io/hdf5_descriptor.h"
#include "data/io/hdf5_handle.h"
#include "data/io/hdf5_reader.h"

namespace ventris::data {

// The library lays out the file and writes its metadata. Array data is written to the position of each
// dataset with plain writes, so that a full disk is a system error with its reason, before anything is
// flushed.
struct Hdf5Writer::Impl {
  struct Array {
    ElementType type;
    int64_t size;
    int64_t written;
    int64_t offset;
  };

  AtomicFile target;
  const FileDigest kind;
  std::string digest;
  Hdf5Handle file;
  std::map<std::string, Array> arrays;

  Impl(const std::string& path, int64_t expected_bytes, FileDigest digests);
  ~Impl();
  void ensure_groups(const std::string& name);
  void write_attribute(const std::string& object, const std::string& name, hid_t type, const void* value);
  void create(const std::string& name, ElementType type, std::span<const int64_t> dimensions);
  void seal(int64_t bytes);

  [[noreturn]] void fail_here(const std::string& what) { target.fail_writing(what, hdf5_reason()); }
  Hdf5Handle checked(hid_t id, Hdf5Handle::Closer closer, const std::string& what) {
    if (id < 0) fail_here(what);
    return {id, closer};
  }
};

namespace {

// Creation order of links and attributes tracked and indexed, no times: the bytes depend on the content only.
void set_object_properties(hid_t properties, bool group) {
  H5Pset_obj_track_times(properties, false);
  H5Pset_attr_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  if (group) {
    H5Pset_link_creation_order(properties, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
  }
}

}  // namespace

Hdf5Writer::Impl::Impl(const std::string& path, int64_t expected_bytes, FileDigest digests)
    : target(path, expected_bytes), kind(digests) {
  Hdf5Lock lock;
  Hdf5Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  set_object_properties(creation.id(), true);
  H5Pset_userblock(creation.id(), kUserBlockBytes);
  const Hdf5Handle access = hdf5_file_access();
  use_descriptor(access.id(), target.fd());
  file = Hdf5Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()), H5Fclose);
  if (!file.valid()) fail_here("cannot start an HDF5 file");
}

Hdf5Writer::Impl::~Impl() {
  if (!target.committed()) {
    // Frees the space first, so that the library can close the file even on a full disk.
    [[maybe_unused]] const int ignored = ::ftruncate(target.fd(), 0);
  }
  Hdf5Lock lock;
  file.close();
}

void Hdf5Writer::Impl::ensure_groups(const std::string& name) {
  Hdf5Handle properties(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  set_object_properties(properties.id(), true);
  for (size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string group = name.substr(0, slash);
    if (H5Lexists(file.id(), group.c_str(), H5P_DEFAULT) <= 0) {
      checked(H5Gcreate2(file.id(), group.c_str(), H5P_DEFAULT, properties.id(), H5P_DEFAULT), H5Gclose,
              fmt::format("cannot create the group {}", group));
    }
  }
}

void Hdf5Writer::Impl::write_attribute(const std::string& object, const std::string& name, hid_t type,
                                       const void* value) {
  const std::string what = fmt::format("cannot write attribute {} of {}", name, object);
  const Hdf5Handle on =
      checked(H5Oopen(file.id(), object.c_str(), H5P_DEFAULT), H5Oclose, fmt::format("no object {}", object));
  const Hdf5Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Handle attribute =
      checked(H5Acreate2(on.id(), name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
  if (H5Awrite(attribute.id(), type, value) < 0) fail_here(what);
}

void Hdf5Writer::Impl::create(const std::string& name, ElementType type,
                              std::span<const int64_t> dimensions) {
  const std::string what = fmt::format("cannot create the dataset {}", name);
  const std::vector<hsize_t> extents(dimensions.begin(), dimensions.end());
  int64_t size = 1;
  for (const int64_t extent : dimensions) size *= extent;
  Hdf5Lock lock;
  ensure_groups(name);
  const Hdf5Handle space =
      checked(extents.empty() ? H5Screate(H5S_SCALAR)
                              : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
              H5Sclose, what);
  Hdf5Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  set_object_properties(properties.id(), false);
  H5Pset_layout(properties.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(properties.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER);
  const Hdf5Handle dataset = checked(H5Dcreate2(file.id(), name.c_str(), hdf5_type(type), space.id(),
                                                H5P_DEFAULT, properties.id(), H5P_DEFAULT),
                                     H5Dclose, what);
  const haddr_t offset = size == 0 ? 0 : H5Dget_offset(dataset.id());
  if (offset == HADDR_UNDEF) fail_here(what);
  arrays[name] = {type, size, 0, static_cast<int64_t>(offset)};
}

/// Writes the user block and sets the digest.
void Hdf5Writer::Impl::seal(int64_t bytes) {
  if (kind == FileDigest::kTree) {
    digest = DigestTree::append_to(
                 target.fd(), bytes, target.path(),
                 [&](const void* data, int64_t size, int64_t offset) { target.write_at(offset, data, size); })
                 .root();
    return;
  }
  const auto length = static_cast<uint64_t>(bytes - kUserBlockBytes);
  const XXH128_canonical_t value = digest_of_range(target.fd(), kUserBlockBytes, bytes, target.path());
  std::array<char, kUserBlockBytes> block{};
  std::memcpy(block.data(), kUserBlockMagic, 8);
  std::memcpy(block.data() + 8, &length, 8);
  std::memcpy(block.data() + 16, value.digest, 16);
  target.write_at(0, block.data(), kUserBlockBytes);
  digest = hexadecimal(value);
}

Hdf5Writer::Hdf5Writer(const std::string& path, int64_t expected_bytes, FileDigest kind) {
  constexpr size_t kMinRoom = size_t{32} << 20;  // with less the library may crash
  if (!has_room(kMinRoom)) {
    fail(ErrorKind::kUnavailable,
         "{}: out of memory: the HDF5 library needs at least {} MiB, more than the limits of the process "
         "leave; raise them (ulimit -v, ulimit -d), or use fewer --threads",
         path, kMinRoom >> 20);
  }
  impl_ = std::make_unique<Impl>(path, expected_bytes, kind);
}
Hdf5Writer::~Hdf5Writer() = default;

void Hdf5Writer::write_attribute(const std::string& object, const std::string& name,
                                 const std::string& value) {
  Hdf5Lock lock;
  Hdf5Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), value.empty() ? 1 : value.size());
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  impl_->write_attribute(object, name, type.id(), value.c_str());
}

void Hdf5Writer::write_attribute(const std::string& object, const std::string& name, int64_t value) {
  Hdf5Lock lock;
  impl_->write_attribute(object, name, H5T_STD_I64LE, &value);
}

void Hdf5Writer::write_attribute(const std::string& object, const std::string& name, double value) {
  Hdf5Lock lock;
  impl_->write_attribute(object, name, H5T_IEEE_F64LE, &value);
}

void Hdf5Writer::write(const std::string& name, ElementType type, std::span<const int64_t> dimensions,
                       const void* data) {
  impl_->create(name, type, dimensions);
  append(name, data, impl_->arrays.at(name).size);
}

void Hdf5Writer::create(const std::string& name, ElementType type, int64_t size) {
  impl_->create(name, type, std::span<const int64_t>(&size, 1));
}

void Hdf5Writer::append(const std::string& name, const void* data, int64_t count) {
  const auto found = impl_->arrays.find(name);
  if (found == impl_->arrays.end() || found->second.written + count > found->second.size) {
    fail(ErrorKind::kIo, "{}: {} more elements do not fit in the dataset {}", impl_->target.path(), count,
         name);
  }
  Impl::Array& array = found->second;
  const auto width = static_cast<int64_t>(size_of(array.type));
  impl_->target.write_at(array.offset + array.written * width, data, count * width);
  array.written += count;
}

void Hdf5Writer::commit() {
  AtomicFile& target = impl_->target;
  for (const auto& [name, array] : impl_->arrays) {
    if (array.written != array.size) {
      fail(ErrorKind::kIo, "{}: only {} of {} elements of the dataset {} were written", target.path(),
           array.written, array.size, name);
    }
  }
  {
    Hdf5Lock lock;
    if (H5Fflush(impl_->file.id(), H5F_SCOPE_LOCAL) < 0) impl_->fail_here("cannot finish the file");
    if (!impl_->file.close()) impl_->fail_here("cannot close the file");
  }
  struct stat status {};
  if (::fstat(target.fd(), &status) != 0) {
    target.fail_writing("cannot read the length of the file", system_reason(errno));
  }
  impl_->seal(status.st_size);
  target.commit();
}

void Hdf5Writer::verify() const {
  // The data are on the disk, so nothing is lost. If the advice is not followed, the cache is read.
  ::posix_fadvise(impl_->target.fd(), 0, 0, POSIX_FADV_DONTNEED);
  const std::string& path = impl_->target.path();
  std::string difference;
  bool is_damaged = true;
  try {
    if (const std::string present = verified_digest(path); present != digest())
      difference = fmt::format("its digest is {}", present);
  } catch (const DataError& error) {
    difference = error.what();
    is_damaged = error.kind() == ErrorKind::kBadData;
  }
  if (difference.empty()) return;
  fail(ErrorKind::kIo, "{}: was written, but cannot be read back with the digest {}: {}{}", path, digest(),
       difference,
       is_damaged ? ". The disk, or the connection to it, is faulty; earlier files are intact" : "");
}

const std::string& Hdf5Writer::digest() const {
  return impl_->digest;
}

void TemporaryArray::copy_to(Hdf5Writer& writer, const std::string& name) {
  file_->flush();
  writer.create(name, type_, size());
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<char> piece(static_cast<size_t>(kPieceBytes));
  for (int64_t at = 0; at < file_->size(); at += kPieceBytes) {
    const int64_t bytes = std::min(file_->size() - at, kPieceBytes);
    read_all(file_->fd(), piece.data(), bytes, at, file_->path());
    writer.append(name, piece.data(), bytes / width_);
    // What was copied is not needed twice; a file system without holes keeps it.
    static_cast<void>(::fallocate(file_->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes));
  }
}

}  // namespace ventris::data
