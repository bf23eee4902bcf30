// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "data/error.h"
#include "data/io/digest.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_contents.h"
#include "data/io/hdf5_handle.h"
#include "data/io/mapped_file.h"

namespace ventris::data {

namespace {

FileHandle open_regular(const std::string& path, int64_t& bytes) {
  FileHandle opened = open_to_read(path);
  if (!opened.valid()) fail_opening(path, errno);
  struct stat status {};
  if (::fstat(opened.fd(), &status) != 0) {
    fail(ErrorKind::kIo, "{}: cannot read the length of the file: {}", path, system_reason(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorKind::kBadData, "{}: not a regular file; expected a file written by ventris", path);
  }
  bytes = status.st_size;
  return opened;
}

/// The digests of a file.
struct Verified {
  std::string digest;              // hexadecimal
  std::optional<DigestTree> tree;  // that compares the bytes later; without, all were compared

  /// The end of the bytes that have digests.
  int64_t end(int64_t bytes) const { return tree ? tree->end() : bytes; }
};

/// The digest of the bytes after the user block, which is stored in the block.
Verified verify(int fd, int64_t bytes, const std::string& path) {
  if (bytes < kUserBlockBytes) {
    fail(ErrorKind::kBadData, "{}: not an HDF5 file written by ventris: it has only {} bytes", path, bytes);
  }
  if (DigestTree::is_in(fd, bytes, path)) {
    DigestTree tree(fd, bytes, path);
    std::string root = tree.root();
    return {.digest = std::move(root), .tree = std::move(tree)};
  }
  std::array<char, kUserBlockBytes> block{};
  read_all(fd, block.data(), kUserBlockBytes, 0, path);
  if (std::memcmp(block.data(), kUserBlockMagic, 8) != 0) {
    fail(
        ErrorKind::kBadData,
        "{}: not an HDF5 file written by ventris: it does not begin with {} or {}. Programs that copy the "
        "contents of HDF5 files (h5py, h5repack) leave that out: copy the file itself, or make it with ventris "
        "again",
        path, kUserBlockMagic, DigestTree::kMagic);
  }
  uint64_t length = 0;
  std::memcpy(&length, block.data() + 8, 8);
  require_length(path, bytes, length);
  constexpr size_t kUsed = 32;
  for (size_t i = kUsed; i < kUserBlockBytes; ++i) {
    if (block[i] != 0) fail_changed(path, fmt::format("byte {} is not zero", i));
  }
  const XXH128_canonical_t value = digest_of_range(fd, kUserBlockBytes, bytes, path);
  XXH128_canonical_t wanted;
  std::memcpy(wanted.digest, block.data() + 16, 16);
  const std::string present_digest = hexadecimal(value);
  if (std::memcmp(value.digest, wanted.digest, 16) != 0) {
    fail_changed(path, fmt::format("its digest is {}, not {}", present_digest, hexadecimal(wanted)));
  }
  return {.digest = present_digest, .tree = {}};
}

std::string shape_text(std::span<const int64_t> dimensions) {
  return fmt::format("[{}]", fmt::join(dimensions, ", "));
}

/// "ventris weights 1"; "" if the file has no format.
std::string recorded_format(const Hdf5Contents& contents) {
  const auto value = [&]<typename Value>(const char* name, Value none) {
    const Hdf5Attribute* found = contents.find_attribute("/", name);
    const Value* held = found != nullptr ? std::get_if<Value>(&found->value) : nullptr;
    return held != nullptr ? *held : none;
  };
  const std::string format = value(kFormatKey, std::string());
  const int64_t version = value(kVersionKey, int64_t{0});  // of a corpus
  return version > 0 ? fmt::format("{} {}", format, version) : format;
}

}  // namespace

struct Hdf5Reader::Impl {
  std::string path;
  int64_t bytes = 0;  // of the file
  FileHandle data;
  Verified verified;
  Hdf5Contents contents;

  explicit Impl(const std::string& file_path)
      : path(file_path),
        data(open_regular(path, bytes)),
        verified(verify(data.fd(), bytes, path)),
        contents(path, data.fd(), bytes, verified.end(bytes)) {
    refuse_newer_format(recorded_format(contents), path);
  }

  const Hdf5Dataset& dataset(const std::string& name) const;
  template <typename Value>
  const Value& attribute(const std::string& object, const std::string& name, const char* wanted) const;
};

const Hdf5Dataset& Hdf5Reader::Impl::dataset(const std::string& name) const {
  const Hdf5Dataset* found = contents.find_dataset(name);
  if (found == nullptr) fail(ErrorKind::kBadData, "{}: the file has no dataset {}", path, name);
  return *found;
}

template <typename Value>
const Value& Hdf5Reader::Impl::attribute(const std::string& object, const std::string& name,
                                         const char* wanted) const {
  const Hdf5Attribute* found = contents.find_attribute(object, name);
  if (found == nullptr) fail(ErrorKind::kBadData, "{}: {} has no attribute {}", path, object, name);
  const Value* value = std::get_if<Value>(&found->value);
  if (value == nullptr) {
    fail(ErrorKind::kBadData, "{}: attribute {} of {} is not {}", path, name, object, wanted);
  }
  return *value;
}

Hdf5Reader::Hdf5Reader(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Hdf5Reader::~Hdf5Reader() = default;

bool Hdf5Reader::exists(const std::string& name) const {
  return impl_->contents.has_group(name) || impl_->contents.find_dataset(name) != nullptr;
}

std::vector<std::string> Hdf5Reader::datasets(const std::string& group) const {
  if (!impl_->contents.has_group(group)) {
    fail(ErrorKind::kBadData, "{}: the file has no group {}", impl_->path, group);
  }
  const std::string prefix = group == "/" ? group : group + "/";
  std::vector<std::string> found;
  for (const Hdf5Dataset& dataset : impl_->contents.datasets()) {
    if (dataset.name.starts_with(prefix)) found.push_back(dataset.name);
  }
  return found;
}

bool Hdf5Reader::has_attribute(const std::string& object, const std::string& name) const {
  return impl_->contents.find_attribute(object, name) != nullptr;
}

std::string Hdf5Reader::string_attribute(const std::string& object, const std::string& name) const {
  return impl_->attribute<std::string>(object, name, "a string of fixed length");
}

int64_t Hdf5Reader::int_attribute(const std::string& object, const std::string& name) const {
  return impl_->attribute<int64_t>(object, name, "a 64-bit integer");
}

double Hdf5Reader::double_attribute(const std::string& object, const std::string& name) const {
  return impl_->attribute<double>(object, name, "a 64-bit floating-point number");
}

std::vector<int64_t> Hdf5Reader::dimensions(const std::string& dataset, const std::string& expected) const {
  const Hdf5Dataset& found = impl_->dataset(dataset);
  if (!found.has_elements) {
    fail(ErrorKind::kBadData, "{}: dataset {} has a null dataspace (no elements), where {} is expected",
         impl_->path, dataset, expected);
  }
  return found.dimensions;
}

ElementType Hdf5Reader::type(const std::string& dataset) const {
  const std::optional<ElementType>& type = impl_->dataset(dataset).type;
  if (!type) {
    fail(ErrorKind::kBadData,
         "{}: the elements of dataset {} are not of type f32, f64, i32, i64, u8, i8, u16 or bf16", path(),
         dataset);
  }
  return *type;
}

void Hdf5Reader::require(const std::string& name, ElementType type,
                         std::span<const int64_t> dimensions) const {
  const std::vector<int64_t> shape =
      this->dimensions(name, fmt::format("an array of {} {}", name_of(type), shape_text(dimensions)));
  const ElementType stored = this->type(name);
  if (stored != type || !std::equal(shape.begin(), shape.end(), dimensions.begin(), dimensions.end())) {
    fail(ErrorKind::kBadData, "{}: dataset {} is {} {}, expected {} {}", impl_->path, name, name_of(stored),
         shape_text(shape), name_of(type), shape_text(dimensions));
  }
}

void Hdf5Reader::read(const std::string& name, ElementType type, std::span<const int64_t> dimensions,
                      void* data) const {
  require(name, type, dimensions);
  auto bytes = static_cast<int64_t>(size_of(type));
  for (const int64_t extent : dimensions) bytes *= extent;
  if (bytes > 0) read_bytes_at(impl_->dataset(name).offset, data, bytes);
}

std::vector<uint8_t> Hdf5Reader::read_bytes(const std::string& name) const {
  const std::vector<int64_t> shape = dimensions(name, "a row of bytes");
  if (type(name) != ElementType::kU8 || shape.size() != 1) {
    fail(ErrorKind::kBadData, "{}: dataset {} is {} {}, expected a row of bytes", impl_->path, name,
         name_of(type(name)), shape_text(shape));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(shape[0]));
  read(name, ElementType::kU8, shape, bytes.data());
  return bytes;
}

int64_t Hdf5Reader::file_offset(const std::string& name) const {
  static_cast<void>(type(name));
  const Hdf5Dataset& dataset = impl_->dataset(name);
  const bool none = std::ranges::find(dataset.dimensions, 0) != dataset.dimensions.end();
  return none || !dataset.has_elements ? kUserBlockBytes : dataset.offset;
}

void Hdf5Reader::read_bytes_at(int64_t offset, void* data, int64_t bytes) const {
  if (impl_->verified.tree) {
    impl_->verified.tree->read(offset, data, bytes);
  } else {
    read_all(impl_->data.fd(), data, bytes, offset, impl_->path);
  }
}

int64_t Hdf5Reader::file_bytes() const {
  return impl_->bytes;
}

std::unique_ptr<MappedFile> Hdf5Reader::map() const {
  const std::optional<DigestTree>& tree = impl_->verified.tree;
  return std::make_unique<MappedFile>(impl_->data.fd(), impl_->bytes, impl_->path, tree ? &*tree : nullptr);
}

const std::string& Hdf5Reader::path() const {
  return impl_->path;
}

const std::string& Hdf5Reader::digest() const {
  return impl_->verified.digest;
}

std::string verified_digest(const std::string& path) {
  int64_t bytes = 0;
  const FileHandle file = open_regular(path, bytes);
  const Verified verified = verify(file.fd(), bytes, path);
  if (verified.tree) verified.tree->check_all(static_cast<int>(std::thread::hardware_concurrency()));
  return verified.digest;
}

void refuse_newer_file(const std::string& path) {
  try {
    int64_t bytes = 0;
    const FileHandle file = open_regular(path, bytes);
    if (!is_newer_format(recorded_format(Hdf5Contents(path, file.fd(), bytes, bytes)))) return;
    const Hdf5Reader reader(path);  // a damaged one may only look like it
  } catch (const NewerFormat&) {
    throw;
  } catch (const DataError&) {
  }
}

}  // namespace ventris::data
