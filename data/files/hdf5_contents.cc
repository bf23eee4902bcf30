// SPDX-License-Identifier: Apache-2.0
#include "data/files/hdf5_contents.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "data/error.h"
#include "data/files/hdf5_child.h"
#include "data/files/json_text.h"

namespace ventris::data {
namespace {

using Listed = nlohmann::json;

/// Whether the elements are inside the file, so that a dataset is never larger than the file.
bool is_inside(const Hdf5Dataset& dataset, int64_t bytes) {
  if (std::ranges::any_of(dataset.dimensions, [](int64_t extent) { return extent < 0; })) return false;
  const bool none = std::ranges::find(dataset.dimensions, 0) != dataset.dimensions.end();
  if (none || !dataset.type || !dataset.has_elements) return true;
  int64_t needed = static_cast<int64_t>(size_of(*dataset.type));
  for (const int64_t extent : dataset.dimensions) {
    if (extent > bytes / needed) return false;
    needed *= extent;
  }
  return dataset.offset >= 0 && dataset.offset <= bytes && needed <= bytes - dataset.offset;
}

Hdf5Dataset dataset_of(const Listed& listed) {
  Hdf5Dataset dataset{.name = listed.at("name"), .type = {}, .dimensions = {}, .offset = listed.at("offset")};
  for (const ElementType known : kElementTypes) {
    if (listed.at("type") == static_cast<int>(known)) dataset.type = known;
  }
  dataset.has_elements = !listed.at("dimensions").is_null();
  if (dataset.has_elements) dataset.dimensions = listed.at("dimensions").get<std::vector<int64_t>>();
  return dataset;
}

Hdf5Attribute attribute_of(const Listed& listed) {
  Hdf5Attribute attribute = {.object = listed.at(0), .name = listed.at(1), .value = {}};
  const Listed& value = listed.at(2);
  if (value.is_string()) {
    attribute.value = value.get<std::string>();
  } else if (value.is_number_integer()) {
    attribute.value = value.get<int64_t>();
  } else if (value.is_array()) {  // the bits of a number
    attribute.value = std::bit_cast<double>(value.at(0).get<int64_t>());
  }
  return attribute;
}

}  // namespace

Hdf5Contents::Hdf5Contents(const std::string& path, int fd, int64_t bytes, int64_t end) try {
  const Listed listing = read_json(list_hdf5_in_child(path, fd, bytes));
  if (listing.contains("refused")) fail(ErrorKind::kBadData, "{}", listing.at("refused").get<std::string>());
  groups_ = listing.at("groups").get<std::vector<std::string>>();
  for (const Listed& each : listing.at("datasets")) {
    datasets_.push_back(dataset_of(each));
    if (!is_inside(datasets_.back(), end))
      fail(ErrorKind::kBadData, "{}: dataset {} reaches beyond the end of the file", path,
           datasets_.back().name);
  }
  for (const Listed& each : listing.at("attributes")) attributes_.push_back(attribute_of(each));
} catch (const Listed::exception&) {
  fail(ErrorKind::kBadData, "{}: the HDF5 library cannot read it safely: its answer is damaged", path);
}

const Hdf5Dataset* Hdf5Contents::find_dataset(std::string_view name) const {
  const auto found = std::find_if(datasets_.begin(), datasets_.end(),
                                  [&](const Hdf5Dataset& dataset) { return dataset.name == name; });
  return found == datasets_.end() ? nullptr : &*found;
}

bool Hdf5Contents::has_group(std::string_view name) const {
  return std::find(groups_.begin(), groups_.end(), name) != groups_.end();
}

const Hdf5Attribute* Hdf5Contents::find_attribute(std::string_view object, std::string_view name) const {
  const auto found = std::find_if(
      attributes_.begin(), attributes_.end(),
      [&](const Hdf5Attribute& attribute) { return attribute.object == object && attribute.name == name; });
  return found == attributes_.end() ? nullptr : &*found;
}

}  // namespace ventris::data
