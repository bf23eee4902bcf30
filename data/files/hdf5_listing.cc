// SPDX-License-Identifier: Apache-2.0
#include "data/files/hdf5_listing.h"

#include <bit>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "data/error.h"
#include "data/files/digest_tree.h"
#include "data/files/element_type.h"
#include "data/files/file_format.h"
#include "data/files/hdf5_descriptor.h"
#include "data/files/hdf5_handle.h"
#include "data/files/json_text.h"

namespace ventris::data {
namespace {

using Listing = nlohmann::json;

struct Names {
  std::vector<std::string> names;
  size_t max = 0;

  herr_t add(const char* name) {
    names.emplace_back(name);
    return names.size() > max ? -1 : 0;
  }
};

herr_t collect_link(hid_t, const char* name, const H5L_info_t*, void* names) {
  return static_cast<Names*>(names)->add(name);
}

herr_t collect_attribute(hid_t, const char* name, const H5A_info_t*, void* names) {
  return static_cast<Names*>(names)->add(name);
}

/// Visits all objects of a file and writes the listing.
class Walk {
 public:
  Walk(const std::string& path, int fd, int64_t bytes, const CheckedReads& reads)
      : path_(path), fd_(fd), bytes_(static_cast<size_t>(bytes)), reads_(reads) {}

  Listing run() {
    const Hdf5Handle access = hdf5_file_access();
    use_descriptor(access.id(), fd_, reads_);
    file_ = Hdf5Handle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
    if (!file_.valid()) fail_here("the digest is right, but the HDF5 library cannot open the file");
    const Hdf5Handle root = checked(H5Gopen2(file_.id(), "/", H5P_DEFAULT), H5Gclose, "cannot open /");
    group(root, "/", 1);
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

  Names names() const { return {.names = {}, .max = bytes_ / 8}; }
  void group(const Hdf5Handle& object, const std::string& name, int depth);
  void member(const Hdf5Handle& parent, const std::string& member, const std::string& name, int depth);
  void dataset(const Hdf5Handle& object, const std::string& name);
  void attributes(const Hdf5Handle& object, const std::string& name);
  void attribute(const Hdf5Handle& object, const std::string& object_name, const std::string& name);

  const std::string& path_;
  int fd_;
  size_t bytes_;
  const CheckedReads& reads_;
  Hdf5Handle file_;
  Listing listing_ = {
      {"groups", Listing::array()}, {"datasets", Listing::array()}, {"attributes", Listing::array()}};
  std::string format_;  // of the file, as soon as it is known (data/files/file_format.h)
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
  Names members = names();
  if (H5Literate(object.id(), H5_INDEX_CRT_ORDER, H5_ITER_INC, nullptr, collect_link, &members) < 0) {
    fail_here(fmt::format("cannot list {} in the order in which its members were made", name));
  }
  for (const std::string& each : members.names)
    member(object, each, (name == "/" ? "" : name) + "/" + each, depth);
}

void Walk::member(const Hdf5Handle& parent, const std::string& member, const std::string& name, int depth) {
  H5L_info_t link;
  if (H5Lget_info(parent.id(), member.c_str(), &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD) {
    fail(ErrorKind::kBadData, "{}: {} is a link, which no file of ours has", path_, name);
  }
  const Hdf5Handle object = checked(H5Oopen(parent.id(), member.c_str(), H5P_DEFAULT), H5Oclose,
                                    fmt::format("cannot open {}", name));
  const H5I_type_t kind = H5Iget_type(object.id());
  if (kind == H5I_GROUP) {
    group(object, name, depth + 1);
  } else if (kind == H5I_DATASET) {
    dataset(object, name);
  } else {
    fail(ErrorKind::kBadData, "{}: {} is neither a group nor a dataset", path_, name);
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
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) {
    // Whoever needs it says what it should have been.
    record("datasets", {{"name", name}, {"type", type}, {"offset", 0}, {"dimensions", nullptr}});
    return attributes(object, name);
  }
  const int rank = H5Sget_simple_extent_ndims(space.id());
  if (rank < 0) fail_here(what);
  std::vector<hsize_t> extents(static_cast<size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr) < 0) fail_here(what);
  // Values that do not fit become negative, and the reader refuses them.
  const std::vector<int64_t> dimensions(extents.begin(), extents.end());
  record("datasets", {{"name", name},
                      {"type", type},
                      {"offset", static_cast<int64_t>(H5Dget_offset(object.id()))},
                      {"dimensions", dimensions}});
  attributes(object, name);
}

void Walk::attributes(const Hdf5Handle& object, const std::string& name) {
  Names found = names();
  if (H5Aiterate2(object.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, collect_attribute, &found) < 0) {
    fail_here(fmt::format("cannot list the attributes of {}", name));
  }
  for (const std::string& each : found.names) attribute(object, name, each);
}

void Walk::attribute(const Hdf5Handle& object, const std::string& object_name, const std::string& name) {
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

}  // namespace

std::string list_hdf5(const std::string& path, int fd, int64_t bytes) {
  std::string damage;
  try {
    std::optional<DigestTree> tree;
    if (DigestTree::is_in(fd, bytes, path)) tree.emplace(fd, bytes, path);
    const CheckedReads reads = {.tree = tree ? &*tree : nullptr, .damage = &damage};
    const Listing listing = Walk(path, fd, bytes, reads).run();
    if (!damage.empty()) fail(ErrorKind::kBadData, "{}", damage);
    return json_text(listing);
  } catch (const DataError& error) {
    return json_text(Listing{{"refused", damage.empty() ? error.what() : damage}});
  }
}

}  // namespace ventris::data
