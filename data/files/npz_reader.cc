// SPDX-License-Identifier: Apache-2.0
#include "data/files/npz_reader.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "data/error.h"

// Formats: PKWARE's APPNOTE.TXT (zip), and NEP 1 of NumPy (npy).

namespace ventris::data {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kCentralBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr size_t kMaxComment = 65535;
constexpr uint64_t kMaxGrowth = 3;
constexpr size_t kMaxNpzDimensions = 8;
constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// Little-endian numbers; the caller has checked the length.
template <typename T>
T number_at(std::span<const uint8_t> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (T{bytes[at + i]} << (8 * i)));
  return value;
}

/// The position of the end record: the last one whose comment reaches exactly to the end of the file.
size_t find_end_record(std::span<const uint8_t> bytes) {
  if (bytes.size() < kEndBytes) return SIZE_MAX;
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (number_at<uint32_t>(bytes, at) == kEndSignature &&
        at + kEndBytes + number_at<uint16_t>(bytes, at + 20) == bytes.size()) {
      return at;
    }
  }
  return SIZE_MAX;
}

/// Whether there is an entry of that name at the offset. No checksum covers the names, so that a damaged one
/// shows only by its second copy.
bool has_local_name(std::span<const uint8_t> bytes, size_t offset, std::string_view name) {
  if (offset > bytes.size() || bytes.size() - offset < kLocalBytes + name.size() ||
      number_at<uint32_t>(bytes, offset) != kLocalSignature ||
      number_at<uint16_t>(bytes, offset + 26) != name.size()) {
    return false;
  }
  const auto* const first = reinterpret_cast<const char*>(bytes.data()) + offset + kLocalBytes;
  return std::string_view(first, name.size()) == name;
}

/// Reads the dictionary of an npy header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  bool parse(NpzArray& array) {
    if (!take('{')) return false;
    int seen = 0;
    while (!take('}')) {
      std::string key;
      if (!quoted(key) || !take(':')) return false;
      bool good = false;
      int bit = 0;
      if (key == "descr") {
        good = quoted(array.type);
        bit = 1;
      } else if (key == "fortran_order") {
        good = boolean(array.fortran_order);
        bit = 2;
      } else if (key == "shape") {
        good = shape(array.shape);
        bit = 4;
      }
      if (!good || (seen & bit) != 0) return false;
      seen |= bit;
      if (!take(',') && !peek('}')) return false;
    }
    skip_spaces();
    return seen == 7 && at_ == text_.size();
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool peek(char c) {
    skip_spaces();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    if (!peek(c)) return false;
    ++at_;
    return true;
  }
  bool quoted(std::string& value) {
    skip_spaces();
    const char quote = at_ < text_.size() ? text_[at_] : ' ';
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos || end - at_ > 32) return false;
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool boolean(bool& value) {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      value = word == "True";
      at_ += word.size();
      return true;
    }
    return false;
  }
  bool shape(std::vector<int64_t>& extents) {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      int64_t extent = -1;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0 || extents.size() == kMaxNpzDimensions) return false;
      at_ = static_cast<size_t>(end - text_.data());
      extents.push_back(extent);
      if (!take(',') && !peek(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// Bytes of an element of a type such as "<f4", or 0 if it is not supported.
size_t element_bytes(std::string_view type) {
  if (type.size() != 3 || (type[0] != '<' && type[0] != '|')) return 0;
  const size_t bytes = static_cast<size_t>(type[2] - '0');
  const bool known = std::string_view("fiub").find(type[1]) != std::string_view::npos &&
                     (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  return known && (type[0] == '<' || bytes == 1) ? bytes : 0;
}

}  // namespace

NpzFile::NpzFile(std::span<const uint8_t> bytes, std::string origin)
    : origin_(std::move(origin)), bytes_(bytes) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::kBadData, "{}: {}; expected an npz file (a zip archive of npy files)", origin_, what);
  };
  const size_t end = find_end_record(bytes);
  if (end == SIZE_MAX) refuse("the end of the archive is missing: it is truncated, or not an archive");
  const auto count = number_at<uint16_t>(bytes, end + 10);
  const auto directory_bytes = number_at<uint32_t>(bytes, end + 12);
  const auto directory = number_at<uint32_t>(bytes, end + 16);
  if (uint64_t{directory} + directory_bytes > end) refuse("the directory is beyond the end of the archive");
  if (uint64_t{count} * kCentralBytes > directory_bytes) refuse("the directory is too short for its entries");
  entries_.reserve(count);
  names_.reserve(count);
  uint64_t largest = 0;
  size_t at = directory;
  const size_t directory_end = size_t{directory} + directory_bytes;
  for (uint32_t i = 0; i < count; ++i) {
    if (directory_end - at < kCentralBytes || number_at<uint32_t>(bytes, at) != kCentralSignature) {
      refuse(fmt::format("entry {} of the directory is damaged", i));
    }
    const size_t name_bytes = number_at<uint16_t>(bytes, at + 28);
    const size_t more_bytes = number_at<uint16_t>(bytes, at + 30) + number_at<uint16_t>(bytes, at + 32);
    if (directory_end - at - kCentralBytes < name_bytes + more_bytes) {
      refuse(fmt::format("entry {} of the directory is damaged", i));
    }
    std::string name(reinterpret_cast<const char*>(bytes.data()) + at + kCentralBytes, name_bytes);
    const auto flags = number_at<uint16_t>(bytes, at + 8);
    const Entry entry = {.offset = number_at<uint32_t>(bytes, at + 42),
                         .packed_bytes = number_at<uint32_t>(bytes, at + 20),
                         .bytes = number_at<uint32_t>(bytes, at + 24),
                         .crc = number_at<uint32_t>(bytes, at + 16),
                         .method = number_at<uint16_t>(bytes, at + 10)};
    if (!has_local_name(bytes, entry.offset, name)) {
      refuse(fmt::format("entry '{}' of the directory has another name, or none, where it is stored", name));
    }
    if (!name.ends_with(kSuffix)) refuse(fmt::format("entry '{}' is not an npy file", name));
    name.resize(name.size() - kSuffix.size());
    if ((flags & 1) != 0) refuse(fmt::format("entry '{}' is encrypted", name));
    if (entry.method != 0 && entry.method != 8) {
      refuse(fmt::format("entry '{}' is compressed by method {}", name, entry.method));
    }
    if (entry.bytes == UINT32_MAX || entry.packed_bytes == UINT32_MAX || entry.offset == UINT32_MAX) {
      refuse(fmt::format("entry '{}' has 4 GiB or more", name));
    }
    array_bytes_ += entry.bytes;
    largest = std::max<uint64_t>(largest, entry.bytes);
    names_.push_back(std::move(name));
    entries_.push_back(entry);
    at += kCentralBytes + name_bytes + more_bytes;
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

std::vector<uint8_t> NpzFile::unpack(const Entry& entry, const std::string& name) const {
  const auto refuse = [&](const char* what) {
    fail(ErrorKind::kBadData, "{}: array '{}': {}", origin_, name, what);
  };
  if (entry.offset + kLocalBytes > bytes_.size() ||
      number_at<uint32_t>(bytes_, entry.offset) != kLocalSignature) {
    refuse("its offset in the archive is damaged");
  }
  const uint64_t begin = entry.offset + kLocalBytes + number_at<uint16_t>(bytes_, entry.offset + 26) +
                         number_at<uint16_t>(bytes_, entry.offset + 28);
  if (begin + entry.packed_bytes > bytes_.size()) refuse("it reaches beyond the end of the archive");
  const std::span<const uint8_t> packed = bytes_.subspan(begin, entry.packed_bytes);
  std::vector<uint8_t> unpacked;
  if (entry.method == 0) {
    if (entry.packed_bytes != entry.bytes) refuse("its two lengths differ");
    unpacked.assign(packed.begin(), packed.end());
  } else {
    unpacked.resize(entry.bytes);
    z_stream stream = {};
    stream.next_in = const_cast<Bytef*>(packed.data());
    stream.avail_in = entry.packed_bytes;
    stream.next_out = unpacked.data();
    stream.avail_out = entry.bytes;
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    const int status = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    if (status != Z_STREAM_END || stream.avail_out != 0) refuse("its compressed data are damaged");
  }
  const uLong crc = crc32_z(crc32_z(0, nullptr, 0), unpacked.data(), unpacked.size());
  if (crc != entry.crc) refuse("it was changed or damaged: its checksum does not match");
  return unpacked;
}

NpzArray NpzFile::read(std::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) fail(ErrorKind::kBadData, "{}: has no array '{}'", origin_, name);
  std::vector<uint8_t> bytes = unpack(entries_[static_cast<size_t>(found - names_.begin())], *found);
  const auto refuse = [&](const char* what) {
    fail(ErrorKind::kBadData, "{}: array '{}': {}", origin_, name, what);
  };
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.size() < 12 || !text.starts_with(kNpyMagic)) refuse("is not an npy file");
  const bool wide = bytes[6] >= 2;  // the length of the header takes 4 bytes from version 2 on
  if (bytes[6] < 1 || bytes[6] > 3) refuse("is of an unknown version of the npy format");
  const size_t header_at = wide ? 12 : 10;
  const size_t header_bytes = wide ? number_at<uint32_t>(bytes, 8) : number_at<uint16_t>(bytes, 8);
  if (header_bytes > bytes.size() - header_at) refuse("its header is cut off");
  NpzArray array;
  array.name = name;
  if (!HeaderParser(text.substr(header_at, header_bytes)).parse(array)) refuse("its header is damaged");
  const size_t width = element_bytes(array.type);
  if (width == 0) {
    fail(ErrorKind::kBadData, "{}: array '{}' holds '{}', expected little-endian numbers", origin_, name,
         array.type);
  }
  const size_t data_at = header_at + header_bytes;
  uint64_t needed = width;
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

}  // namespace ventris::data
