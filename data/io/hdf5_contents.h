// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/io/element_type.h"

// Private to data/io/hdf5_*.cc: the contents of an HDF5 file.

namespace ventris::data {

struct Hdf5Dataset {
  std::string name;                 // path
  std::optional<ElementType> type;  // empty: not one of our types
  std::vector<int64_t> dimensions;
  int64_t offset = 0;        // of its contiguous data in the file
  bool has_elements = true;  // false: a null dataspace, without dimensions
};

struct Hdf5Attribute {
  std::string object;  // path of the group or dataset
  std::string name;
  std::variant<std::monostate, std::string, int64_t, double> value;  // empty: of another type
};

/// Groups, datasets and attributes of an HDF5 file, with all values except the data of datasets.
class Hdf5Contents {
 public:
  /// Lists an open file of `bytes` bytes. The HDF5 library (1.10.8) crashes on some forged files, so it reads
  /// the file only in a confined process, which returns a listing. External links, data outside of the file
  /// or not contiguous, cycles of groups, and more names than fit in the file are refused. The path is only
  /// for messages: the open file is read. Datasets must end before `end`. Throws DataError kBadData.
  Hdf5Contents(const std::string& path, int fd, int64_t bytes, int64_t end);

  const std::vector<Hdf5Dataset>& datasets() const { return datasets_; }  // in creation order
  const Hdf5Dataset* find_dataset(std::string_view name) const;           // null if there is none
  bool has_group(std::string_view name) const;                            // "/" is one
  const Hdf5Attribute* find_attribute(std::string_view object, std::string_view name) const;

 private:
  std::vector<std::string> groups_;
  std::vector<Hdf5Dataset> datasets_;
  std::vector<Hdf5Attribute> attributes_;
};

/// The listing of a file as JSON: {"groups": [NAME...], "datasets": [{"name", "type": an ElementType, or null
/// for another type, "offset", "dimensions": null without elements}...], "attributes": [[OBJECT, NAME,
/// string, integer, fraction or null]...]}, or {"refused": REASON}. Runs in the process in which the library
/// may crash; under Hdf5Lock.
std::string list_hdf5(const std::string& path, int fd, int64_t bytes);

}  // namespace ventris::data
