// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/io/element_type.h"

namespace ventris::data {

class MappedFile;

/// Reads a file of ours. The user block's magic, length and digest are checked before the HDF5 library sees
/// the file; of a file with a tree of digests (data/io/digest.h), each byte when it is first read, by
/// the library too. A digest can be forged: the library reads the file in a separate process (Hdf5Contents),
/// and external links, data outside of the file, lengths beyond it and cycles of groups are refused. Errors:
/// DataError kMissingInput (no such file), kBadData (not ours, truncated, changed, or an object of another
/// type or shape), NewerFormat (of a later version of the program).
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path);
  ~Hdf5Reader();
  Hdf5Reader(const Hdf5Reader&) = delete;
  Hdf5Reader& operator=(const Hdf5Reader&) = delete;

  bool exists(const std::string& name) const;
  /// Paths of all datasets in a group and its subgroups, in creation order.
  std::vector<std::string> datasets(const std::string& group) const;
  bool has_attribute(const std::string& object, const std::string& name) const;
  std::string string_attribute(const std::string& object, const std::string& name) const;
  int64_t int_attribute(const std::string& object, const std::string& name) const;
  double double_attribute(const std::string& object, const std::string& name) const;
  /// Empty for a scalar. `expected` is for the message about a dataset without elements.
  std::vector<int64_t> dimensions(const std::string& dataset, const std::string& expected = "an array") const;
  ElementType type(const std::string& dataset) const;
  /// Throws unless it is a dataset of `type` with exactly these dimensions.
  void require(const std::string& name, ElementType type, std::span<const int64_t> dimensions) const;
  /// Reads the whole of a dataset as require() requires it.
  void read(const std::string& name, ElementType type, std::span<const int64_t> dimensions, void* data) const;
  std::vector<uint8_t> read_bytes(const std::string& name) const;
  /// Byte offset in the file of a dataset's data, for mapping; all its bytes are in the file.
  int64_t file_offset(const std::string& name) const;
  /// Raw bytes of the file, after the user block. Throws DataError kBadData, kIo.
  void read_bytes_at(int64_t offset, void* data, int64_t bytes) const;
  int64_t file_bytes() const;
  /// The file in memory, which compares bytes with their digests when they are first used. Throws DataError
  /// kIo.
  std::unique_ptr<MappedFile> map() const;

  const std::string& path() const;
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The digest of a file of ours, after all of its bytes were compared with their digests, by all cores if it
/// has a tree of them. Errors: those of Hdf5Reader.
std::string verified_digest(const std::string& path);

/// Throws NewerFormat if the file is of a later version. Does not read other files completely, and leaves
/// their errors to Hdf5Reader.
void refuse_newer_file(const std::string& path);

}  // namespace ventris::data
