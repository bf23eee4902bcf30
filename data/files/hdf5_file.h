#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ventris::data {

/// Element types of datasets. bf16 is the upper half of an f32.
enum class ElementType { kF32, kF64, kI32, kI64, kU8, kI8, kBF16 };

const char* name_of(ElementType type);
size_t size_of(ElementType type);

/// Writes one HDF5 file of ours, which appears under its name when it is complete and synced
/// (data/files/temporary_file.h): commit() flushes, fills the 512-byte user block (magic "VENTRIS1", length
/// and XXH3-128 of everything after the block), fsyncs, gives the name and fsyncs the folder. Library version
/// bounds v110, creation order tracked, no object times: equal content gives equal bytes. Errors: DataError
/// kCannotCreate (cannot open), kIo (such as a full disk, with the path, the reason of the system, and the
/// bytes needed and free).
class Hdf5Writer {
 public:
  /// `expected_bytes`, if known, is the size of the whole file, for messages.
  explicit Hdf5Writer(const std::string& path, int64_t expected_bytes = 0);
  ~Hdf5Writer();
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  /// Object names are paths; missing groups are created. Attributes belong to an existing group or dataset,
  /// "/" for the file.
  void write_attribute(const std::string& object, const std::string& name, const std::string& value);
  void write_attribute(const std::string& object, const std::string& name, int64_t value);
  void write_attribute(const std::string& object, const std::string& name, double value);
  /// A contiguous dataset of row-major data with the given dimensions.
  void write(const std::string& name, ElementType type, std::span<const int64_t> dimensions,
             const void* data);
  /// A contiguous one-dimensional dataset that grows up to a size known now, written in pieces with append().
  void create(const std::string& name, ElementType type, int64_t size);
  void append(const std::string& name, const void* data, int64_t count);

  void commit();
  /// Reads the committed file again, from the disk if the system follows the advice, and compares digests.
  /// Throws DataError kIo if they differ.
  void verify() const;
  /// Hexadecimal XXH3-128 of the committed file.
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads a file of ours. The user block's magic, length and digest are checked before the HDF5 library sees
/// the file. A digest can be forged: the library reads the file in a separate process (Hdf5Contents), and
/// external links, data outside of the file, lengths beyond it and cycles of groups are refused. Errors:
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
  std::vector<int64_t> dimensions(const std::string& dataset) const;
  ElementType type(const std::string& dataset) const;
  /// Reads a whole dataset of `type` with exactly these dimensions.
  void read(const std::string& name, ElementType type, std::span<const int64_t> dimensions, void* data) const;
  std::vector<uint8_t> read_bytes(const std::string& name) const;
  /// Byte offset in the file of a dataset's data, for mapping; all its bytes are in the file.
  int64_t file_offset(const std::string& name) const;
  /// Raw bytes of the file. Throws DataError kIo.
  void read_bytes_at(int64_t offset, void* data, int64_t bytes) const;
  int64_t file_bytes() const;

  const std::string& path() const;
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The digest of a file of ours, after the checks that Hdf5Reader makes before the HDF5 library sees it.
/// Errors: those of Hdf5Reader.
std::string verified_digest(const std::string& path);

/// Throws NewerFormat if the file is of a later version. Does not read other files completely, and leaves
/// their errors to Hdf5Reader.
void refuse_newer_file(const std::string& path);

/// Element types by C++ type, for the calls above.
template <typename T>
struct ElementTypeOf;
template <>
struct ElementTypeOf<float> {
  static constexpr ElementType value = ElementType::kF32;
};
template <>
struct ElementTypeOf<double> {
  static constexpr ElementType value = ElementType::kF64;
};
template <>
struct ElementTypeOf<int32_t> {
  static constexpr ElementType value = ElementType::kI32;
};
template <>
struct ElementTypeOf<int64_t> {
  static constexpr ElementType value = ElementType::kI64;
};
template <>
struct ElementTypeOf<uint8_t> {
  static constexpr ElementType value = ElementType::kU8;
};

}  // namespace ventris::data
