// SPDX-License-Identifier: Apache-2.0
#include "data/files/npz_writer.h"

#include <zlib.h>

#include <limits>

#include "data/error.h"
#include "data/files/atomic_file.h"

namespace ventris::data {
namespace {

constexpr uint16_t kZipVersion = 20;      // of the zip format: folders and deflate
constexpr uint16_t kDate = (1 << 5) | 1;  // 1980-01-01, the first day that the format knows
constexpr size_t kAlignment = 64;         // of the data of an npy file, from its beginning

template <typename T>
void put(std::string& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::string npy_header(std::string_view type, std::span<const int64_t> shape) {
  std::string extents;
  for (const int64_t extent : shape) extents += fmt::format("{}{}", extents.empty() ? "" : ", ", extent);
  if (shape.size() == 1) extents += ",";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type, extents);
  std::string header = "\x93NUMPY";
  header += '\x01';
  header += '\0';
  const size_t unpadded = header.size() + 2 + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  put(header, static_cast<uint16_t>(text.size()));
  return header + text;
}

}  // namespace

struct NpzWriter::Impl {
  explicit Impl(const std::string& name) : path(name), file(name) {}
  /// The fields common to the local header and the directory.
  static std::string common_fields(uint32_t crc, uint32_t bytes, size_t name_bytes) {
    std::string fields;
    put(fields, kZipVersion);
    put(fields, uint16_t{0});  // flags
    put(fields, uint16_t{0});  // stored
    put(fields, uint16_t{0});  // time
    put(fields, kDate);
    put(fields, crc);
    put(fields, bytes);  // packed
    put(fields, bytes);
    put(fields, static_cast<uint16_t>(name_bytes));
    put(fields, uint16_t{0});  // extra field
    return fields;
  }

  std::string path;
  AtomicFile file;
  std::string directory;
  uint16_t entries = 0;
};

NpzWriter::NpzWriter(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
NpzWriter::~NpzWriter() = default;

void NpzWriter::add(const std::string& name, std::string_view type, std::span<const int64_t> shape,
                    const void* data, size_t bytes) {
  const std::string header = npy_header(type, shape);
  const size_t all = header.size() + bytes;
  const int64_t offset = impl_->file.size();
  if (all >= UINT32_MAX || offset + static_cast<int64_t>(all) >= int64_t{UINT32_MAX} ||
      impl_->entries == std::numeric_limits<uint16_t>::max()) {
    fail(ErrorKind::kBadConfiguration, "{}: the model does not fit in an npz file, whose limit is 4 GiB",
         impl_->path);
  }
  uLong crc = crc32_z(0, nullptr, 0);
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(header.data()), header.size());
  crc = crc32_z(crc, static_cast<const Bytef*>(data), bytes);
  const std::string file_name = name + ".npy";
  const std::string fields =
      Impl::common_fields(static_cast<uint32_t>(crc), static_cast<uint32_t>(all), file_name.size());
  std::string local;
  put(local, uint32_t{0x04034b50});
  impl_->file.write(local + fields + file_name + header);
  impl_->file.write(data, bytes);

  std::string& directory = impl_->directory;
  put(directory, uint32_t{0x02014b50});
  put(directory, kZipVersion);  // made by
  directory += fields;
  put(directory, uint16_t{0});  // comment
  put(directory, uint16_t{0});  // disk
  put(directory, uint16_t{0});  // internal attributes
  put(directory, uint32_t{0});  // external attributes
  put(directory, static_cast<uint32_t>(offset));
  directory += file_name;
  ++impl_->entries;
}

void NpzWriter::commit() {
  const auto at = static_cast<uint32_t>(impl_->file.size());
  std::string end;
  put(end, uint32_t{0x06054b50});
  put(end, uint16_t{0});
  put(end, uint16_t{0});
  put(end, impl_->entries);
  put(end, impl_->entries);
  put(end, static_cast<uint32_t>(impl_->directory.size()));
  put(end, at);
  put(end, uint16_t{0});  // comment
  impl_->file.write(impl_->directory + end);
  impl_->file.commit();
}

}  // namespace ventris::data
