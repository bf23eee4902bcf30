// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ventris::data {

/// A tensor in a safetensors file: row-major, little-endian.
struct SafeTensor {
  std::string name;
  std::string_view type;  // F32, U8, ...: one of the names of the format, in static memory
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes of the data section, which follows the header
  int64_t end = 0;
  bool operator==(const SafeTensor&) const = default;
};

using SafeMetadata = std::vector<std::pair<std::string, std::string>>;

/// A safetensors file in memory: 8 bytes length of the header, the header (JSON), the data. The bytes must
/// outlive the object. Everything is checked before it is used: the form of the header, names that occur
/// twice, lengths, types, shapes, and that the tensors cover the data section without gap or overlap. If the
/// metadata have a digest, it is checked (see write_safetensors()). Throws DataError kBadData, naming
/// `origin`, NewerFormat if the metadata name a later format of ours than this program reads.
class SafetensorsFile {
 public:
  SafetensorsFile(std::span<const uint8_t> bytes, std::string origin);

  const std::vector<SafeTensor>& tensors() const { return tensors_; }  // by increasing offset
  const SafeMetadata& metadata() const { return metadata_; }
  /// Null if there is none of that name.
  const SafeTensor* find(std::string_view name) const;
  const std::string* find_metadata(std::string_view key) const;
  std::span<const uint8_t> data(const SafeTensor& tensor) const;
  const std::string& origin() const { return origin_; }

 private:
  void read_header();
  void refuse_newer() const;
  void check_layout();
  bool is_as_written() const;

  std::string origin_;
  std::span<const uint8_t> bytes_;
  std::string_view header_;
  std::span<const uint8_t> data_;
  std::vector<SafeTensor> tensors_;
  SafeMetadata metadata_;
};

/// Writes a safetensors file: metadata in the order given, with "digest" before them, then the tensors, with
/// their data in that order (SafeTensor::begin and end are ignored). `write_data` is called once for each
/// tensor and returns its bytes; they are read before it is called again. The digest is the hexadecimal
/// XXH3-128 of everything after the length of the header, with 32 zeros in its own place. The file appears
/// under its name when it is complete.
void write_safetensors(const std::string& path, const SafeMetadata& metadata,
                       const std::vector<SafeTensor>& tensors,
                       const std::function<std::string_view(const SafeTensor&)>& data_of);

}  // namespace ventris::data
