#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "data/error.h"
#include "data/file_io.h"
#include "data/hdf5_file.h"
#include "data/hdf5_handle.h"

namespace ventris::data {

struct Hdf5Reader::Impl {
  std::string path;
  std::string digest;
  int64_t bytes = 0;  // of the file
  Hdf5Handle file;

  explicit Impl(const std::string& file_path) : path(file_path) {
    verify();
    Hdf5Lock lock;
    const Hdf5Handle access = hdf5_file_access();
    file = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!file.valid()) {
      fail_here("the digest is right, but the HDF5 library cannot open the file");
    }
  }

  ~Impl() {
    Hdf5Lock lock;
    file.close();
  }

  [[noreturn]] void fail_here(const std::string& what) const {
    fail(ErrorKind::kBadData, "{}: {}: {}", path, what, hdf5_reason());
  }

  Hdf5Handle checked(hid_t id, Hdf5Handle::Closer closer, const std::string& what) const {
    if (id < 0) {
      fail_here(what);
    }
    return {id, closer};
  }

  void verify();
  bool exists(const std::string& name) const;
  Hdf5Handle attribute(const std::string& object, const std::string& name, H5T_class_t kind,
                       const char* wanted, size_t size) const;
  void read_attribute(const Hdf5Handle& attribute, const std::string& name, hid_t type, void* value) const;
  Hdf5Handle dataset(const std::string& name) const;
  std::vector<int64_t> dimensions(const Hdf5Handle& dataset, const std::string& name) const;
  void check_storage(const Hdf5Handle& dataset, const std::string& name) const;
  void list_datasets(const std::string& group, int depth, std::vector<std::string>& found) const;
  std::vector<std::string> members(const std::string& group) const;
  bool is_group(const std::string& name) const;
  ElementType type(const Hdf5Handle& dataset, const std::string& name) const;
  void read(const Hdf5Handle& dataset, const std::string& name, ElementType type, void* data) const;
};

void Hdf5Reader::Impl::verify() {
  const FileHandle data(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!data.valid()) {
    fail(ErrorKind::kMissingInput, "{}: cannot open the file: {}", path, system_reason(errno));
  }
  struct stat status {};
  if (::fstat(data.fd(), &status) != 0) {
    fail(ErrorKind::kIo, "{}: cannot read the length of the file: {}", path, system_reason(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::kBadData, "{}: not a regular file; a file written by ventris is expected", path);
  }
  std::array<char, kUserBlockBytes> block{};
  if (status.st_size < static_cast<int64_t>(kUserBlockBytes)) {
    fail(ErrorKind::kBadData, "{}: not a file written by ventris: it has only {} bytes", path,
         status.st_size);
  }
  read_all(data.fd(), block.data(), kUserBlockBytes, 0, path);
  if (std::memcmp(block.data(), kUserBlockMagic, 8) != 0) {
    fail(ErrorKind::kBadData, "{}: not a file written by ventris: it does not begin with {}", path,
         kUserBlockMagic);
  }
  uint64_t length = 0;
  std::memcpy(&length, block.data() + 8, 8);
  const auto present = static_cast<uint64_t>(status.st_size) - kUserBlockBytes;
  if (length != present) {
    fail(ErrorKind::kBadData,
         "{}: the file is {}: {} bytes after the first {}, {} were written. Copy it again.", path,
         present < length ? "truncated" : "changed", present, kUserBlockBytes, length);
  }
  constexpr size_t kUsed = 32;
  for (size_t i = kUsed; i < kUserBlockBytes; ++i) {
    if (block[i] != 0) {
      fail(ErrorKind::kBadData,
           "{}: the file was changed after it was written: byte {} is not zero. Copy it again.", path, i);
    }
  }
  bytes = status.st_size;
  const XXH128_canonical_t value = digest_of_range(data.fd(), kUserBlockBytes, status.st_size, path);
  XXH128_canonical_t wanted;
  std::memcpy(wanted.digest, block.data() + 16, 16);
  digest = hexadecimal(value);
  if (std::memcmp(value.digest, wanted.digest, 16) != 0) {
    fail(ErrorKind::kBadData,
         "{}: the file was changed after it was written: its digest is {}, {} was written. Copy it again.",
         path, digest, hexadecimal(wanted));
  }
}

bool Hdf5Reader::Impl::exists(const std::string& name) const {
  if (name == "/") {
    return true;
  }
  // H5Lexists wants every group above the last name to exist.
  for (size_t slash = name.find('/', 1);; slash = name.find('/', slash + 1)) {
    const std::string prefix = name.substr(0, slash);
    if (H5Lexists(file.id(), prefix.c_str(), H5P_DEFAULT) <= 0) {
      return false;
    }
    H5L_info_t link;
    if (H5Lget_info(file.id(), prefix.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
      fail(ErrorKind::kBadData, "{}: {} is a link to another place, which no file of ours has", path, prefix);
    }
    if (slash == std::string::npos) {
      return true;
    }
  }
}

Hdf5Handle Hdf5Reader::Impl::attribute(const std::string& object, const std::string& name, H5T_class_t kind,
                                       const char* wanted, size_t size) const {
  const std::string what = fmt::format("cannot read attribute {} of {}", name, object);
  Hdf5Handle attribute = checked(
      H5Aopen_by_name(file.id(), object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, what);
  const Hdf5Handle type = checked(H5Aget_type(attribute.id()), H5Tclose, what);
  const Hdf5Handle space = checked(H5Aget_space(attribute.id()), H5Sclose, what);
  if (H5Tget_class(type.id()) != kind || (size != 0 && H5Tget_size(type.id()) != size) ||
      H5Sget_simple_extent_npoints(space.id()) != 1 ||
      (kind == H5T_STRING && H5Tis_variable_str(type.id()) != 0)) {
    fail(ErrorKind::kBadData, "{}: attribute {} of {} is not {}", path, name, object, wanted);
  }
  return attribute;
}

void Hdf5Reader::Impl::read_attribute(const Hdf5Handle& attribute, const std::string& name, hid_t type,
                                      void* value) const {
  if (H5Aread(attribute.id(), type, value) < 0) {
    fail_here(fmt::format("cannot read attribute {}", name));
  }
}

Hdf5Handle Hdf5Reader::Impl::dataset(const std::string& name) const {
  if (!exists(name)) {
    fail(ErrorKind::kBadData, "{}: the file has no dataset {}", path, name);
  }
  Hdf5Handle dataset = checked(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose,
                               fmt::format("cannot open dataset {}", name));
  check_storage(dataset, name);
  return dataset;
}

/// Requires that the elements lie in the file in one piece, so that a dataset is never larger than the file.
void Hdf5Reader::Impl::check_storage(const Hdf5Handle& dataset, const std::string& name) const {
  const std::string what = fmt::format("cannot read the layout of {}", name);
  const Hdf5Handle creation = checked(H5Dget_create_plist(dataset.id()), H5Pclose, what);
  if (H5Pget_layout(creation.id()) != H5D_CONTIGUOUS || H5Pget_external_count(creation.id()) != 0) {
    fail(ErrorKind::kBadData, "{}: dataset {} is not stored in one piece", path, name);
  }
  const auto left = [this](haddr_t offset) {
    return offset > static_cast<haddr_t>(bytes) ? haddr_t{0} : static_cast<haddr_t>(bytes) - offset;
  };
  const Hdf5Handle type = checked(H5Dget_type(dataset.id()), H5Tclose, what);
  haddr_t elements = 1;
  for (const int64_t extent : dimensions(dataset, name)) {
    const auto count = static_cast<haddr_t>(extent);
    if (elements != 0 && count > static_cast<haddr_t>(bytes) / elements) elements = HADDR_UNDEF;
    elements = elements == HADDR_UNDEF && count != 0 ? HADDR_UNDEF : elements * count;
  }
  if (elements == 0) return;
  const haddr_t offset = H5Dget_offset(dataset.id());
  if (offset == HADDR_UNDEF || elements > left(offset) / std::max<size_t>(1, H5Tget_size(type.id()))) {
    fail(ErrorKind::kBadData, "{}: dataset {} reaches beyond the end of the file", path, name);
  }
}

std::vector<int64_t> Hdf5Reader::Impl::dimensions(const Hdf5Handle& dataset, const std::string& name) const {
  const std::string what = fmt::format("cannot read the shape of {}", name);
  const Hdf5Handle space = checked(H5Dget_space(dataset.id()), H5Sclose, what);
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 0 || H5Sget_simple_extent_type(space.id()) == H5S_NULL) {
    fail_here(what);
  }
  std::vector<hsize_t> extents(static_cast<size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr) < 0) {
    fail_here(what);
  }
  return {extents.begin(), extents.end()};
}

ElementType Hdf5Reader::Impl::type(const Hdf5Handle& dataset, const std::string& name) const {
  const Hdf5Handle stored =
      checked(H5Dget_type(dataset.id()), H5Tclose, fmt::format("cannot read the type of {}", name));
  for (const ElementType type :
       {ElementType::kF32, ElementType::kF64, ElementType::kI32, ElementType::kI64, ElementType::kU8}) {
    if (H5Tequal(stored.id(), hdf5_type(type)) > 0) {
      return type;
    }
  }
  fail(ErrorKind::kBadData, "{}: the elements of dataset {} are none of f32, f64, i32, i64 and u8", path,
       name);
}

void Hdf5Reader::Impl::read(const Hdf5Handle& dataset, const std::string& name, ElementType type,
                            void* data) const {
  if (H5Dread(dataset.id(), hdf5_type(type), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
    fail_here(fmt::format("cannot read dataset {}", name));
  }
}

namespace {

std::string shape_text(std::span<const int64_t> dimensions) {
  return fmt::format("[{}]", fmt::join(dimensions, ", "));
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

Hdf5Reader::Hdf5Reader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Hdf5Reader::~Hdf5Reader() = default;

bool Hdf5Reader::exists(const std::string& name) const {
  Hdf5Lock lock;
  return impl_->exists(name);
}

std::vector<std::string> Hdf5Reader::Impl::members(const std::string& group) const {
  if (!exists(group)) {
    fail(ErrorKind::kBadData, "{}: the file has no group {}", path, group);
  }
  std::vector<std::string> names;
  if (H5Literate_by_name(file.id(), group.c_str(), H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect_name,
                         &names, H5P_DEFAULT) < 0) {
    fail_here(fmt::format("cannot list {}", group));
  }
  return names;
}

bool Hdf5Reader::Impl::is_group(const std::string& name) const {
  if (!exists(name)) {
    return false;
  }
  const Hdf5Handle object =
      checked(H5Oopen(file.id(), name.c_str(), H5P_DEFAULT), H5Oclose, fmt::format("cannot open {}", name));
  return H5Iget_type(object.id()) == H5I_GROUP;
}

/// A hostile file may link its groups in circles, or give few datasets many names; both are refused.
void Hdf5Reader::Impl::list_datasets(const std::string& group, int depth,
                                     std::vector<std::string>& found) const {
  constexpr int kMaxDepth = 16;
  constexpr size_t kLeastBytesOfDataset = 64;
  if (depth > kMaxDepth) {
    fail(ErrorKind::kBadData, "{}: groups are nested more than {} deep at {}", path, kMaxDepth, group);
  }
  for (const std::string& member : members(group)) {
    const std::string name = (group == "/" ? "" : group) + "/" + member;
    if (is_group(name)) {
      list_datasets(name, depth + 1, found);
      continue;
    }
    found.push_back(name);
    if (found.size() > static_cast<size_t>(bytes) / kLeastBytesOfDataset) {
      fail(ErrorKind::kBadData, "{}: names more datasets than a file of {} bytes can hold", path, bytes);
    }
  }
}

std::vector<std::string> Hdf5Reader::datasets(const std::string& group) const {
  Hdf5Lock lock;
  std::vector<std::string> found;
  impl_->list_datasets(group, 1, found);
  return found;
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  Hdf5Lock lock;
  return impl_->exists(object) &&
         H5Aexists_by_name(impl_->file.id(), object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
}

std::string Hdf5Reader::string_attribute(const std::string& object, const std::string& name) const {
  Hdf5Lock lock;
  const Hdf5Handle attribute = impl_->attribute(object, name, H5T_STRING, "a string of fixed length", 0);
  const Hdf5Handle type(H5Aget_type(attribute.id()), H5Tclose);
  const size_t size = H5Tget_size(type.id());
  if (size > static_cast<size_t>(impl_->bytes)) {
    fail(ErrorKind::kBadData, "{}: attribute {} of {} is longer than the file", impl_->path, name, object);
  }
  std::string value(size, '\0');
  impl_->read_attribute(attribute, name, type.id(), value.data());
  // Padding: only the one zero byte of an empty string.
  return value == std::string(1, '\0') ? std::string() : value;
}

int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  Hdf5Lock lock;
  int64_t value = 0;
  impl_->read_attribute(impl_->attribute(object, name, H5T_INTEGER, "a 64-bit integer", 8), name,
                        H5T_NATIVE_INT64, &value);
  return value;
}

double Hdf5Reader::double_attribute(const std::string& object, const std::string& name) const {
  Hdf5Lock lock;
  double value = 0.0;
  impl_->read_attribute(impl_->attribute(object, name, H5T_FLOAT, "a 64-bit floating-point number", 8), name,
                        H5T_NATIVE_DOUBLE, &value);
  return value;
}

std::vector<int64_t> Hdf5Reader::dimensions(const std::string& dataset) const {
  Hdf5Lock lock;
  return impl_->dimensions(impl_->dataset(dataset), dataset);
}

ElementType Hdf5Reader::type(const std::string& dataset) const {
  Hdf5Lock lock;
  return impl_->type(impl_->dataset(dataset), dataset);
}

void Hdf5Reader::read(const std::string& name, ElementType type, std::span<const int64_t> dimensions,
                      void* data) const {
  Hdf5Lock lock;
  const Hdf5Handle dataset = impl_->dataset(name);
  const ElementType stored = impl_->type(dataset, name);
  const std::vector<int64_t> shape = impl_->dimensions(dataset, name);
  if (stored != type || !std::equal(shape.begin(), shape.end(), dimensions.begin(), dimensions.end())) {
    fail(ErrorKind::kBadData, "{}: dataset {} is {} {}, {} {} was expected", impl_->path, name,
         name_of(stored), shape_text(shape), name_of(type), shape_text(dimensions));
  }
  impl_->read(dataset, name, type, data);
}

std::vector<uint8_t> Hdf5Reader::read_bytes(const std::string& name) const {
  Hdf5Lock lock;
  const Hdf5Handle dataset = impl_->dataset(name);
  const ElementType stored = impl_->type(dataset, name);
  const std::vector<int64_t> shape = impl_->dimensions(dataset, name);
  if (stored != ElementType::kU8 || shape.size() != 1) {
    fail(ErrorKind::kBadData, "{}: dataset {} is {} {}, a row of bytes was expected", impl_->path, name,
         name_of(stored), shape_text(shape));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(shape[0]));
  if (!bytes.empty()) {
    impl_->read(dataset, name, ElementType::kU8, bytes.data());
  }
  return bytes;
}

int64_t Hdf5Reader::file_offset(const std::string& name) const {
  Hdf5Lock lock;
  const Hdf5Handle dataset = impl_->dataset(name);
  const std::vector<int64_t> shape = impl_->dimensions(dataset, name);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return kUserBlockBytes;
  return static_cast<int64_t>(H5Dget_offset(dataset.id()));
}

int64_t Hdf5Reader::file_bytes() const {
  return impl_->bytes;
}

const std::string& Hdf5Reader::path() const {
  return impl_->path;
}
const std::string& Hdf5Reader::digest() const {
  return impl_->digest;
}

}  // namespace ventris::data
