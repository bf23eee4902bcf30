// SPDX-License-Identifier: Apache-2.0
#include "data/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_format.h"
#include "data/files/file_io.h"
#include "data/files/json_text.h"

namespace ventris::data {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxDimensions = 8;
constexpr size_t kMaxMetadata = 256;
constexpr int64_t kMaxElements = int64_t{1} << 48;
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kOffsetsKey = "data_offsets";

struct Type {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Type, 15> kTypes = {{{"BOOL", 1},
                                          {"U8", 1},
                                          {"I8", 1},
                                          {"F8_E4M3", 1},
                                          {"F8_E5M2", 1},
                                          {"I16", 2},
                                          {"U16", 2},
                                          {"F16", 2},
                                          {"BF16", 2},
                                          {"I32", 4},
                                          {"U32", 4},
                                          {"F32", 4},
                                          {"I64", 8},
                                          {"U64", 8},
                                          {"F64", 8}}};

const Type* find_type(std::string_view name) {
  const auto found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : &*found;
}

/// Handles the events of the parser: only the structure of the format is accepted, and no tree of JSON values
/// is built.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::vector<SafeTensor>& tensors, SafeMetadata& metadata)
      : tensors_(tensors), metadata_(metadata) {}

  bool null() override { return refuse("a null"); }
  bool boolean(bool) override { return refuse("a boolean"); }
  bool number_float(double, const std::string&) override { return refuse("a fraction"); }
  bool binary(binary_t&) override { return refuse("binary data"); }
  bool number_integer(int64_t) override { return refuse("a negative number"); }
  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) {
      if (tensor_.shape.size() == kMaxDimensions) return refuse("a shape of more than 8 dimensions");
      if (value > static_cast<uint64_t>(kMaxElements)) return refuse("a dimension that is too large");
      tensor_.shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ == Place::kOffsets && offsets_ < 2 && value <= static_cast<uint64_t>(INT64_MAX)) {
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = static_cast<int64_t>(value);
      return true;
    }
    return refuse("a number");
  }
  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (metadata_.size() == kMaxMetadata) return refuse("more than 256 metadata");
      metadata_.emplace_back(key_, value);
      return true;
    }
    if (place_ == Place::kTensor && key_ == "dtype" && tensor_.type.empty()) {
      const Type* type = find_type(value);
      if (type == nullptr) return refuse("an unknown dtype");
      tensor_.type = type->name;
      return true;
    }
    return refuse("a string");
  }
  bool key(std::string& value) override {
    key_ = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (place_ == Place::kBefore) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      tensor_ = {};
      tensor_.name = key_;
      offsets_ = 0;
      has_shape_ = false;
    } else {
      return refuse("an object");
    }
    return true;
  }
  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (tensor_.type.empty() || !has_shape_ || offsets_ != 2) {
        return refuse("a tensor without dtype, shape or data_offsets");
      }
      tensors_.push_back(std::move(tensor_));
    }
    place_ = Place::kTop;
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && key_ == "shape" && !has_shape_) {
      place_ = Place::kShape;
      has_shape_ = true;
    } else if (place_ == Place::kTensor && key_ == kOffsetsKey && offsets_ == 0) {
      place_ = Place::kOffsets;
    } else {
      return refuse("a list");
    }
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    what_ = fmt::format("invalid JSON at byte {}", position);
    return false;
  }
  /// Description of an unexpected element.
  const std::string& what() const { return what_; }

 private:
  enum class Place { kBefore, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool refuse(const char* what) {
    what_ = fmt::format("{} at '{}'", what, key_.substr(0, 100));
    return false;
  }

  std::vector<SafeTensor>& tensors_;
  SafeMetadata& metadata_;
  Place place_ = Place::kBefore;
  std::string key_;
  SafeTensor tensor_;
  int offsets_ = 0;
  bool has_shape_ = false;
  std::string what_;
};

size_t count_parts(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) {
    ++found;
  }
  return found;
}

constexpr size_t kDigestDigits = 32;
/// The bytes before the digest in the header of a file of ours.
std::string digest_prefix() {
  return fmt::format("{{\"{}\":{{\"digest\":\"", kMetadataKey);
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
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    fail(
        ErrorKind::kBadData,
        "{}: its header would have {} bytes, but the file has {}: it is truncated, or not a safetensors file",
        origin_, length, bytes.size());
  }
  header_ = {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length};
  data_ = bytes.subspan(kLengthBytes + length);
  tensors_.reserve(count_parts(header_, kOffsetsKey));
  HeaderReader reader(tensors_, metadata_);
  const bool parsed = nlohmann::json::sax_parse(header_.begin(), header_.end(), &reader);
  refuse_newer();
  if (!parsed) {
    fail(ErrorKind::kBadData, "{}: the header of the safetensors file is damaged: {}", origin_,
         reader.what().empty() ? "it ends early" : reader.what());
  }
  check_layout();
  if (!is_as_written()) {
    fail(ErrorKind::kBadData,
         "{}: the file was changed or damaged since it was written: its digest does not match. "
         "Export it again; or remove the digest from its metadata if the change is intended",
         origin_);
  }
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
  std::vector<std::string_view> names;
  names.reserve(tensors_.size());
  for (const SafeTensor& tensor : tensors_) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail(ErrorKind::kBadData, "{}: tensor {} occurs twice", origin_, *twice);
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
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const SafeTensor& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

const std::string* SafetensorsFile::find_metadata(std::string_view key) const {
  const auto found =
      std::find_if(metadata_.begin(), metadata_.end(), [&](const auto& entry) { return entry.first == key; });
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
