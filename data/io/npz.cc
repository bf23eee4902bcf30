// SPDX-License-Identifier: Apache-2.0
#include "data/io/npz.h"

#include <fmt/ranges.h>
#include <zip.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <regex>

#include "data/error.h"

// The format of the entries: NEP 1 of NumPy (npy).

namespace ventris::data {
namespace {

constexpr uint64_t kMaxGrowth = 3;
constexpr size_t kMaxNpzDimensions = 8;
constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Reads the dictionary of an npy header, with its keys in the order in which all programs write them:
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }. False for other forms and types.
bool parse_header(const std::string& text, NpzArray& array) {
  constexpr size_t kMaxBytes = 1024;
  static const std::regex form(R"(\{'descr': '(<[fiu][1248]|\|[iub]1)', 'fortran_order': (True|False), )"
                               R"('shape': \(((?:\d{1,10}, ?)*(?:\d{1,10})?)\),? ?\}[ \n]*)");
  std::smatch parts;
  if (text.size() > kMaxBytes || !std::regex_match(text, parts, form)) return false;
  array.type = parts[1];
  array.fortran_order = parts[2] == "True";
  const std::string extents = parts[3];
  static const std::regex number("\\d+");
  for (std::sregex_iterator at(extents.begin(), extents.end(), number), end; at != end; ++at)
    array.shape.push_back(std::stoll(at->str()));
  return array.shape.size() <= kMaxNpzDimensions;
}

constexpr uint16_t kZipVersion = 20;      // of the zip format: folders and deflate
constexpr uint16_t kDate = (1 << 5) | 1;  // 1980-01-01, the first day that the format knows
constexpr uint16_t kNone = 0;             // flags, compression, times, comments, disks

/// Fields of the zip format end to end.
template <typename... Field>
std::string fields(Field... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

std::string npy_header(std::string_view type, std::span<const int64_t> shape) {
  constexpr size_t kAlignment = 64;  // of the data, from the beginning of the header
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::string begin = std::string(kNpyMagic) + '\x01' + '\0';
  const size_t unpadded = begin.size() + sizeof(uint16_t) + text.size() + 1;
  text.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  text += '\n';
  return begin + fields(static_cast<uint16_t>(text.size())) + text;
}

}  // namespace

NpzFile::NpzFile(std::span<const uint8_t> bytes, std::string origin)
    : origin_(std::move(origin)), archive_(nullptr, zip_discard) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::kBadData, "{}: {}; expected an npz file (a zip archive of npy files)", origin_, what);
  };
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive_ == nullptr) {
    zip_source_free(source);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    refuse(fmt::format("the archive cannot be opened: {}", reason));
  }
  uint64_t largest = 0;
  for (int64_t i = 0; i < zip_get_num_entries(archive_.get(), 0); ++i) {
    zip_stat_t entry;
    if (zip_stat_index(archive_.get(), static_cast<uint64_t>(i), 0, &entry) != 0 ||
        entry.size > kMaxGrowth * bytes.size())
      refuse(fmt::format("entry {} has no size, or one of more than {} times the file", i, kMaxGrowth));
    std::string name = entry.name;
    if (!name.ends_with(kSuffix)) refuse(fmt::format("entry '{}' is not an npy file", name));
    name.resize(name.size() - kSuffix.size());
    array_bytes_ += entry.size;
    largest = std::max<uint64_t>(largest, entry.size);
    names_.push_back(std::move(name));
  }
  const uint64_t needed = array_bytes_ + 2 * largest;
  if (needed > kMaxGrowth * bytes.size()) {
    refuse(fmt::format(
        "its arrays, plus twice the largest, would need {} bytes, more than {} times the {} of the file",
        needed, kMaxGrowth, bytes.size()));
  }
  std::vector<std::string_view> sorted(names_.begin(), names_.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) refuse(fmt::format("array '{}' occurs twice", *twice));
}

bool NpzFile::contains(std::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

/// The bytes of an entry, which the library compares with their checksum.
std::vector<uint8_t> NpzFile::unpack(size_t entry) const {
  zip_stat_t stat;
  zip_stat_index(archive_.get(), entry, 0, &stat);
  std::vector<uint8_t> bytes(stat.size);
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file(zip_fopen_index(archive_.get(), entry, 0),
                                                               zip_fclose);
  uint8_t more = 0;
  if (file == nullptr || zip_fread(file.get(), bytes.data(), bytes.size()) != std::ssize(bytes) ||
      zip_fread(file.get(), &more, 1) != 0) {
    fail(ErrorKind::kBadData, "{}: array '{}' was changed or damaged, or is not stored or deflated: {}",
         origin_, names_[entry],
         file == nullptr ? zip_strerror(archive_.get()) : zip_file_strerror(file.get()));
  }
  return bytes;
}

NpzArray NpzFile::read(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) fail(ErrorKind::kBadData, "{}: has no array '{}'", origin_, name);
  std::vector<uint8_t> bytes = unpack(static_cast<size_t>(found - names_.begin()));
  const auto refuse = [&](const char* what) {
    fail(ErrorKind::kBadData, "{}: array '{}': {}", origin_, name, what);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.size() < 12 || !text.starts_with(kNpyMagic)) refuse("is not an npy file");
  const bool wide = bytes[6] >= 2;  // the length of the header takes 4 bytes from version 2 on
  if (bytes[6] < 1 || bytes[6] > 3) refuse("is of an unknown version of the npy format");
  const size_t header_at = wide ? 12 : 10;
  size_t header_bytes = 0;
  for (size_t i = header_at; i-- > 8;) header_bytes = header_bytes << 8 | bytes[i];
  if (header_bytes > bytes.size() - header_at) refuse("its header is cut off");
  NpzArray array;
  array.name = name;
  if (!parse_header(std::string(text.substr(header_at, header_bytes)), array))
    refuse("its header is damaged, or not of an array of little-endian numbers");
  const size_t data_at = header_at + header_bytes;
  auto needed = static_cast<uint64_t>(array.type[2] - '0');
  for (const int64_t extent : array.shape) {
    // The product stays below 2^64: both factors are below 2^32, or the array is refused.
    if (extent > int64_t{UINT32_MAX} || needed > UINT32_MAX) refuse("its shape is too large");
    needed *= static_cast<uint64_t>(extent);
  }
  if (needed != bytes.size() - data_at) refuse("its shape does not fit its length");
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(data_at));
  array.data = std::move(bytes);
  return array;
}

void NpzWriter::add(const std::string& name, std::string_view type, std::span<const int64_t> shape,
                    const void* data, size_t bytes) {
  const std::string header = npy_header(type, shape);
  const size_t all = header.size() + bytes;
  const int64_t offset = file_.size();
  if (all >= UINT32_MAX || offset + static_cast<int64_t>(all) >= int64_t{UINT32_MAX} ||
      entries_ == std::numeric_limits<uint16_t>::max()) {
    fail(ErrorKind::kBadConfiguration, "{}: the model does not fit in an npz file, whose limit is 4 GiB",
         file_.path());
  }
  const uLong of_header = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  const auto crc = static_cast<uint32_t>(crc32_z(of_header, static_cast<const Bytef*>(data), bytes));
  const auto entry_bytes = static_cast<uint32_t>(all);
  const std::string file_name = name + std::string(kSuffix);
  // What the local header and the directory have in common.
  const std::string common = fields(kZipVersion, kNone, kNone, kNone, kDate, crc, entry_bytes, entry_bytes,
                                    static_cast<uint16_t>(file_name.size()), kNone);
  file_.write(fields(uint32_t{0x04034b50}) + common + file_name + header);
  file_.write(data, bytes);
  constexpr uint32_t kNoAttributes = 0;
  directory_ += fields(uint32_t{0x02014b50}, kZipVersion) + common +
                fields(kNone, kNone, kNone, kNoAttributes, static_cast<uint32_t>(offset)) + file_name;
  ++entries_;
}

void NpzWriter::commit() {
  const auto at = static_cast<uint32_t>(file_.size());
  file_.write(directory_ + fields(uint32_t{0x06054b50}, kNone, kNone, entries_, entries_,
                                  static_cast<uint32_t>(directory_.size()), at, kNone));
  file_.commit();
}

}  // namespace ventris::data
