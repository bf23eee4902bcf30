// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/atomic_file.h"

struct zip;

namespace ventris::data {

/// An array in an npz file (a zip archive of npy files).
struct NpzArray {
  std::string name;            // without ".npy"
  std::string type;            // as NumPy writes it: "<f4", "|i1", ...
  std::vector<int64_t> shape;  // [] for a scalar
  bool fortran_order = false;
  std::vector<uint8_t> data;  // little-endian
};

/// Reads an npz file in memory, which must outlive the object, by libzip: entries that are stored or
/// deflated, without encryption. Every length is checked before memory is allocated for it. All arrays, plus
/// the largest one twice more, may have at most three times the bytes of the file: then the file, a copy of
/// all arrays, and a conversion of one at a time take at most four times the file. Stored arrays always fit,
/// and so do deflated trained weights; a file that is mostly compressed zeros is refused, and so is an entry
/// whose names in the directory and in front of its data differ. Errors: DataError kBadData, naming `origin`
/// and the entry.
class NpzFile {
 public:
  NpzFile(std::span<const uint8_t> bytes, std::string origin);

  /// Names of the arrays, in the order of the archive.
  const std::vector<std::string>& names() const { return names_; }
  bool contains(std::string_view name) const;
  /// Reads one array; checks its CRC-32 and header.
  NpzArray read(std::string_view name) const;
  const std::string& origin() const { return origin_; }
  /// Total bytes of all arrays, unpacked, with their headers.
  uint64_t array_bytes() const { return array_bytes_; }

 private:
  std::vector<uint8_t> unpack(size_t entry) const;

  std::string origin_;
  std::unique_ptr<zip, void (*)(zip*)> archive_;
  std::vector<std::string> names_;
  uint64_t array_bytes_ = 0;
};

/// Writes an npz file of stored entries without times, so that equal arrays give equal bytes. The file
/// appears under its name at commit().
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path) : file_(path) {}

  /// A row-major array; `type` in the notation of NumPy.
  void add(const std::string& name, std::string_view type, std::span<const int64_t> shape, const void* data,
           size_t bytes);
  void commit();

 private:
  AtomicFile file_;
  std::string directory_;
  uint16_t entries_ = 0;
};

}  // namespace ventris::data
