// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_contents.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/error.h"
#include "data/io/digest.h"
#include "data/io/file_format.h"
#include "data/io/hdf5_child.h"
#include "data/io/hdf5_descriptor.h"
#include "data/io/hdf5_handle.h"
#include "data/io/json_text.h"

namespace ventris::data {
namespace {

using Listing = nlohmann::json;

struct Names {
  std::vector<std::string> names;
  size_t max = 0;
};

/// Collects the names of links or attributes.
template <typename Info>
herr_t collect(hid_t, const char* name, const Info*, void* to) {
  Names& found = *static_cast<Names*>(to);
  found.names.emplace_back(name);
  return found.names.size() > found.max ? -1 : 0;
}

/// Visits all objects of a file and writes the listing.
class Walk {
 public:
  Walk(const std::string& path, int fd, int64_t bytes, const CheckedReads& reads)
      : path_(path), fd_(fd), bytes_(static_cast<size_t>(bytes)), reads_(reads) {}

  Listing run() {
    const Hdf5Handle access = hdf5_file_access();
    use_descriptor(access.id(), fd_, reads_);
    const Hdf5Handle file = checked(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose,
                                    "the digest is right, but the HDF5 library cannot open the file");
    group(checked(H5Gopen2(file.id(), "/", H5P_DEFAULT), H5Gclose, "cannot open /"), "/", 1);
    return std::move(listing_);
  }

 private:
  [[noreturn]] void fail_here(const std::string& what) const {
    fail(ErrorKind::kBadData, "{}: {}: {}", path_, what, hdf5_reason());
  }
  Hdf5Handle checked(hid_t id, Hdf5Handle::Closer closer, const std::string& what) const {
    if (id < 0) fail_here(what);
    return {id, closer};
  }

  void record(const char* list, Listing entry) {
    constexpr size_t kMinBytes = 64;  // of an object or attribute in the file
    if (++records_ > bytes_ / kMinBytes)
      fail(ErrorKind::kBadData, "{}: names more than a file of {} bytes can hold", path_, bytes_);
    listing_[list].push_back(std::move(entry));
  }

  void group(const Hdf5Handle& object, const std::string& name, int depth);
  void dataset(const Hdf5Handle& object, const std::string& name);
  void attributes(const Hdf5Handle& object, const std::string& name);

  const std::string& path_;
  int fd_;
  size_t bytes_;
  const CheckedReads& reads_;
  Listing listing_ = {
      {"groups", Listing::array()}, {"datasets", Listing::array()}, {"attributes", Listing::array()}};
  std::string format_;  // of the file, as soon as it is known (data/io/file_format.h)
  size_t records_ = 0;
};

/// A hostile file may link its groups in cycles, or give few datasets many names; both are refused.
void Walk::group(const Hdf5Handle& object, const std::string& name, int depth) {
  constexpr int kMaxDepth = 16;
  if (depth > kMaxDepth) {
    fail(ErrorKind::kBadData, "{}: groups are nested more than {} deep at {}", path_, kMaxDepth, name);
  }
  record("groups", name);
  attributes(object, name);
  if (is_newer_format(format_)) return;  // the reader refuses it in any case
  Names members = {.names = {}, .max = bytes_ / 8};
  if (H5Literate(object.id(), H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect<H5L_info_t>, &members) < 0) {
    fail_here(fmt::format("cannot list {} in the order in which its members were made", name));
  }
  for (const std::string& each : members.names) {
    const std::string path = (name == "/" ? "" : name) + "/" + each;
    H5L_info_t link;
    if (H5Lget_info(object.id(), each.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)
      fail(ErrorKind::kBadData, "{}: {} is a link, which no file of ours has", path_, path);
    const Hdf5Handle member = checked(H5Oopen(object.id(), each.c_str(), H5P_DEFAULT), H5Oclose,
                                      fmt::format("cannot open {}", path));
    const H5I_type_t kind = H5Iget_type(member.id());
    if (kind == H5I_GROUP) {
      group(member, path, depth + 1);
    } else if (kind == H5I_DATASET) {
      dataset(member, path);
    } else {
      fail(ErrorKind::kBadData, "{}: {} is neither a group nor a dataset", path_, path);
    }
  }
}

void Walk::dataset(const Hdf5Handle& object, const std::string& name) {
  const std::string what = fmt::format("cannot read the layout of {}", name);
  const Hdf5Handle creation = checked(H5Dget_create_plist(object.id()), H5Pclose, what);
  if (H5Pget_layout(creation.id()) != H5D_CONTIGUOUS || H5Pget_external_count(creation.id()) != 0) {
    fail(
        ErrorKind::kBadData,
        "{}: dataset {} is not stored contiguously in the file, but in chunks, perhaps compressed, or elsewhere: "
        "another program wrote it. Make the file with ventris again, or write it without chunks and filters",
        path_, name);
  }
  const Hdf5Handle stored = checked(H5Dget_type(object.id()), H5Tclose, what);
  Listing type;
  for (const ElementType known : kElementTypes) {
    if (H5Tequal(stored.id(), hdf5_type(known)) > 0) type = static_cast<int>(known);
  }
  const Hdf5Handle space = checked(H5Dget_space(object.id()), H5Sclose, what);
  Listing listed = {{"name", name}, {"type", type}, {"offset", 0}, {"dimensions", nullptr}};
  if (H5Sget_simple_extent_type(space.id()) != H5S_NULL) {  // whoever needs it says what it should have been
    const int rank = H5Sget_simple_extent_ndims(space.id());
    std::vector<hsize_t> extents(static_cast<size_t>(std::max(rank, 0)));
    if (rank < 0 || (rank > 0 && H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr) < 0))
      fail_here(what);
    // Values that do not fit become negative, and the reader refuses them.
    listed["dimensions"] = std::vector<int64_t>(extents.begin(), extents.end());
    listed["offset"] = static_cast<int64_t>(H5Dget_offset(object.id()));
  }
  record("datasets", std::move(listed));
  attributes(object, name);
}

void Walk::attributes(const Hdf5Handle& object, const std::string& object_name) {
  Names found = {.names = {}, .max = bytes_ / 8};
  if (H5Aiterate2(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect<H5A_info_t>, &found) < 0) {
    fail_here(fmt::format("cannot list the attributes of {}", object_name));
  }
  for (const std::string& name : found.names) {
    const std::string what = fmt::format("cannot read attribute {} of {}", name, object_name);
    const Hdf5Handle opened = checked(H5Aopen(object.id(), name.c_str(), H5P_DEFAULT), H5Aclose, what);
    const Hdf5Handle type = checked(H5Aget_type(opened.id()), H5Tclose, what);
    const Hdf5Handle space = checked(H5Aget_space(opened.id()), H5Sclose, what);
    const H5T_class_t kind = H5Tget_class(type.id());
    const size_t size = H5Tget_size(type.id());
    const auto read = [&](hid_t wanted, void* value) {
      if (H5Aread(opened.id(), wanted, value) < 0) fail_here(what);
    };
    const bool single = H5Sget_simple_extent_npoints(space.id()) == 1;
    Listing value;  // null: of another type
    if (single && kind == H5T_STRING && H5Tis_variable_str(type.id()) == 0) {
      if (size > bytes_)
        fail(ErrorKind::kBadData, "{}: attribute {} of {} is longer than the file", path_, name, object_name);
      std::string text(size, '\0');
      read(type.id(), text.data());
      if (text == std::string(1, '\0')) text.clear();  // the padding of an empty string
      if (object_name == "/" && name == kFormatKey) format_ = text;
      value = text;
    } else if (single && kind == H5T_INTEGER && size == sizeof(int64_t)) {
      int64_t number = 0;
      read(H5T_NATIVE_INT64, &number);
      if (object_name == "/" && name == kVersionKey) format_ += fmt::format(" {}", number);
      value = number;
    } else if (single && kind == H5T_FLOAT && size == sizeof(double)) {
      double number = 0.0;
      read(H5T_NATIVE_DOUBLE, &number);
      value = Listing::array({std::bit_cast<int64_t>(number)});  // JSON has no NaN
    }
    record("attributes", Listing::array({object_name, name, value}));
  }
}

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

Hdf5Dataset dataset_of(const Listing& listed) {
  Hdf5Dataset dataset{.name = listed.at("name"), .type = {}, .dimensions = {}, .offset = listed.at("offset")};
  for (const ElementType known : kElementTypes) {
    if (listed.at("type") == static_cast<int>(known)) dataset.type = known;
  }
  dataset.has_elements = !listed.at("dimensions").is_null();
  if (dataset.has_elements) dataset.dimensions = listed.at("dimensions").get<std::vector<int64_t>>();
  return dataset;
}

Hdf5Attribute attribute_of(const Listing& listed) {
  Hdf5Attribute attribute = {.object = listed.at(0), .name = listed.at(1), .value = {}};
  const Listing& value = listed.at(2);
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

std::string list_hdf5(const std::string& path, int fd, int64_t bytes) {
  std::string damage;
  try {
    std::optional<DigestTree> tree;
    if (DigestTree::is_in(fd, bytes, path)) tree.emplace(fd, bytes, path);
    const CheckedReads reads = {.tree = tree ? &*tree : nullptr, .damage = &damage};
    const Listing listing = Walk(path, fd, bytes, reads).run();
    if (damage.empty()) return json_text(listing);
  } catch (const DataError& error) {
    if (damage.empty()) damage = error.what();
  }
  return json_text(Listing{{"refused", damage}});
}

Hdf5Contents::Hdf5Contents(const std::string& path, int fd, int64_t bytes, int64_t end) try {
  const Listing listing = read_json(list_hdf5_in_child(path, fd, bytes));
  if (listing.contains("refused")) fail(ErrorKind::kBadData, "{}", listing.at("refused").get<std::string>());
  groups_ = listing.at("groups").get<std::vector<std::string>>();
  for (const Listing& each : listing.at("datasets")) {
    datasets_.push_back(dataset_of(each));
    if (!is_inside(datasets_.back(), end))
      fail(ErrorKind::kBadData, "{}: dataset {} reaches beyond the end of the file", path,
           datasets_.back().name);
  }
  for (const Listing& each : listing.at("attributes")) attributes_.push_back(attribute_of(each));
} catch (const Listing::exception&) {
  fail(ErrorKind::kBadData, "{}: the HDF5 library cannot read it safely: its answer is damaged", path);
}

const Hdf5Dataset* Hdf5Contents::find_dataset(std::string_view name) const {
  const auto found = std::ranges::find(datasets_, name, &Hdf5Dataset::name);
  return found == datasets_.end() ? nullptr : &*found;
}

bool Hdf5Contents::has_group(std::string_view name) const {
  return std::ranges::find(groups_, name) != groups_.end();
}

const Hdf5Attribute* Hdf5Contents::find_attribute(std::string_view object, std::string_view name) const {
  const auto found = std::ranges::find_if(attributes_, [&](const Hdf5Attribute& attribute) {
    return attribute.object == object && attribute.name == name;
  });
  return found == attributes_.end() ? nullptr : &*found;
}

}  // namespace ventris::data
