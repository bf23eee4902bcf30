// SPDX-License-Identifier: Apache-2.0
#include "data/io/safetensors.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/io/atomic_file.h"
#include "data/io/file_format.h"
#include "data/io/file_io.h"
#include "data/io/json_text.h"

namespace ventris::data {
namespace {

constexpr size_t kLengthBytes = 8;
/// A tensor takes about 150 bytes of the header, which takes up to about forty times its length when parsed.
constexpr uint64_t kMaxHeaderBytes = uint64_t{4} << 20;
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kOffsetsKey = "data_offsets";

struct Type {
  std::string_view name;
  int64_t bytes;
};
constexpr Type kTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
                           {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                           {"U32", 4},  {"F32", 4}, {"I64", 8}, {"U64", 8},     {"F64", 8}};

const Type* find_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

constexpr size_t kDigestDigits = 32;
/// The bytes before the digest in the header of a file of ours.
std::string digest_prefix() {
  return fmt::format("{{\"{}\":{{\"digest\":\"", kMetadataKey);
}

/// The nesting of lists and objects, and the colons between keys and values, of text that is JSON.
struct Structure {
  int depth = 0;
  size_t colons = 0;
};
Structure structure_of(std::string_view json) {
  Structure found;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') found.depth = std::max(found.depth, ++depth);
    if (c == ']' || c == '}') --depth;
    if (c == ':') ++found.colons;
  }
  return found;
}

int64_t bytes_of(const SafeTensor& tensor) {
  int64_t bytes = find_type(tensor.type)->bytes;
  for (const int64_t extent : tensor.shape) bytes *= extent;
  return bytes;
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::span<const uint8_t> bytes, std::string origin)
    : origin_(std::move(origin)), bytes_(bytes) {
  uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    fail(ErrorKind::kBadData, "{}: {} bytes are not a safetensors file", origin_, bytes.size());
  }
  for (size_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{bytes[i]} << (8 * i);
  const uint64_t max = std::min<uint64_t>(kMaxHeaderBytes, bytes.size() - kLengthBytes);
  if (length > max) {
    fail(
        ErrorKind::kBadData,
        "{}: its header would have {} bytes, expected at most {}: it is truncated, or not a safetensors file",
        origin_, length, max);
  }
  header_ = {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
  data_ = bytes.subspan(kLengthBytes + length);
  read_header();
  check_layout();
  if (!is_as_written()) {
    fail(ErrorKind::kBadData,
         "{}: the file was changed or damaged since it was written: its digest does not match. "
         "Export it again; or remove the digest from its metadata if the change is intended",
         origin_);
  }
}

void SafetensorsFile::read_header() {
  using Header = nlohmann::json;
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::kBadData, "{}: the header of the safetensors file is damaged: {}", origin_, what);
  };
  const auto member = [](const Header& object, const char* key) {
    const auto found = object.find(key);  // the end, too, of a value that is no object
    return found == object.end() ? Header() : *found;
  };
  constexpr int kMaxDepth = 3;  // a shape, in a tensor, in the header
  const Structure structure = structure_of(header_);
  if (structure.depth > kMaxDepth) refuse("its lists and objects are nested too deeply");
  const Header header = try_json(header_);
  if (header.is_discarded()) refuse("it is not valid JSON");
  if (!header.is_object()) refuse("it is not a JSON object");
  if (const auto found = header.find(kMetadataKey); found != header.end()) {
    if (!found->is_object()) refuse(fmt::format("{} is no object", kMetadataKey));
    for (const auto& [key, value] : found->items()) {
      if (!value.is_string()) refuse(fmt::format("metadata {} is not a string", key.substr(0, 100)));
      metadata_.emplace_back(key, value.get<std::string>());
    }
  }
  refuse_newer();
  for (const auto& [name, listed] : header.items()) {
    if (name == kMetadataKey) continue;
    const std::string tensor = fmt::format("tensor {}", name.substr(0, 100));
    const auto number = [&](const Header& value) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(kMaxElements))
        refuse(tensor + " has a dimension or offset that is not a number from 0 to 2^48");
      return value.get<int64_t>();
    };
    const Header type_name = member(listed, "dtype");
    const Header shape = member(listed, "shape");
    const Header offsets = member(listed, kOffsetsKey);
    const Type* type = type_name.is_string() ? find_type(type_name.get<std::string>()) : nullptr;
    if (type == nullptr || !shape.is_array() || !offsets.is_array() || offsets.size() != 2 ||
        listed.size() != 3)
      refuse(tensor + " has an unknown dtype, or missing or unexpected members");
    tensors_.push_back({.name = name,
                        .type = type->name,
                        .shape = {},
                        .begin = number(offsets.at(0)),
                        .end = number(offsets.at(1))});
    for (const Header& extent : shape) tensors_.back().shape.push_back(number(extent));
  }
  // Of equal keys the parser keeps one: then there are fewer members than colons.
  if (structure.colons != header.size() + metadata_.size() + 3 * tensors_.size())
    refuse("a tensor name, a key of a tensor or a key of the metadata occurs twice");
}

/// Not if the file is damaged: then the version may be, too.
void SafetensorsFile::refuse_newer() const {
  const std::string* format = find_metadata(kFormatKey);
  if (format != nullptr && is_newer_format(*format) && is_as_written()) refuse_newer_format(*format, origin_);
}

void SafetensorsFile::check_layout() {
  for (const SafeTensor& tensor : tensors_) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) {
      if (extent > 0 && elements > kMaxElements / extent) {
        fail(ErrorKind::kBadData, "{}: tensor {} is too large", origin_, tensor.name);
      }
      elements *= extent;
    }
    if (tensor.end < tensor.begin || tensor.end - tensor.begin != bytes_of(tensor)) {
      fail(ErrorKind::kBadData, "{}: tensor {} has bytes {} to {}, but its shape needs {} bytes", origin_,
           tensor.name, tensor.begin, tensor.end, bytes_of(tensor));
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t at = 0;
  for (const SafeTensor& tensor : tensors_) {
    if (tensor.begin != at) {
      fail(ErrorKind::kBadData, "{}: tensor {} begins at byte {} of the data, but {} was expected", origin_,
           tensor.name, tensor.begin, at);
    }
    at = tensor.end;
  }
  if (static_cast<uint64_t>(at) != data_.size()) {
    fail(ErrorKind::kBadData, "{}: its tensors have {} bytes, but the file has {}: it is truncated or longer",
         origin_, at, data_.size());
  }
}

/// Whether its digest matches, or it has none.
bool SafetensorsFile::is_as_written() const {
  const std::string* stored = find_metadata("digest");
  if (stored == nullptr) return true;
  const std::string prefix = digest_prefix();
  if (header_.substr(0, prefix.size()) != prefix || stored->size() != kDigestDigits ||
      header_.substr(prefix.size(), kDigestDigits) != *stored)
    return false;
  Digest digest;
  digest.add(header_.data(), prefix.size());
  const std::string zeros(kDigestDigits, '0');
  digest.add(zeros.data(), zeros.size());
  const std::span<const uint8_t> rest = bytes_.subspan(kLengthBytes + prefix.size() + kDigestDigits);
  digest.add(rest.data(), rest.size());
  return digest.hexadecimal() == *stored;
}

const SafeTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &SafeTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

const std::string* SafetensorsFile::find_metadata(std::string_view key) const {
  const auto found = std::ranges::find(metadata_, key, &SafeMetadata::value_type::first);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::span<const uint8_t> SafetensorsFile::data(const SafeTensor& tensor) const {
  return data_.subspan(static_cast<size_t>(tensor.begin), static_cast<size_t>(tensor.end - tensor.begin));
}

void write_safetensors(const std::string& path, const SafeMetadata& metadata,
                       const std::vector<SafeTensor>& tensors,
                       const std::function<std::string_view(const SafeTensor&)>& data_of) {
  const auto quoted = [](const std::string& text) { return json_text(nlohmann::json(text)); };
  std::string header = digest_prefix();
  const size_t digest_at = kLengthBytes + header.size();
  header += std::string(kDigestDigits, '0') + "\"";
  for (const auto& [key, value] : metadata) header += "," + quoted(key) + ":" + quoted(value);
  header += "}";
  int64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    const int64_t end = at + bytes_of(tensor);
    header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"{}\":[{},{}]}}", quoted(tensor.name),
                          tensor.type, utf8_json_text(nlohmann::json(tensor.shape)), kOffsetsKey, at, end);
    at = end;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');

  AtomicFile file(path);
  const uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header);
  Digest digest;
  digest.add(header.data(), header.size());
  for (const SafeTensor& tensor : tensors) {
    const std::string_view data = data_of(tensor);
    if (static_cast<int64_t>(data.size()) != bytes_of(tensor)) {
      fail(ErrorKind::kIo, "{}: tensor {} was given {} bytes", path, tensor.name, data.size());
    }
    file.write(data);
    digest.add(data.data(), data.size());
  }
  file.write_at(static_cast<int64_t>(digest_at), digest.hexadecimal().data(), kDigestDigits);
  file.commit();
}

}  // namespace ventris::data
