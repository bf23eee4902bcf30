// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/io/atomic_file.h"
#include "data/io/element_type.h"

namespace ventris::data {

/// How the digests of a file are stored (docs/formats.md).
enum class FileDigest { kFlat, kTree };

/// Writes one HDF5 file of ours, which appears under its name when it is complete and synced
/// (data/io/atomic_file.h): commit() flushes, fills the 512-byte user block (magic "VENTRIS1", length
/// and XXH3-128 of everything after the block; or as data/io/digest.h), fsyncs, gives the name and
/// fsyncs the folder. Library version bounds v110, creation order tracked, no object times: equal content
/// gives equal bytes. Errors: DataError kCannotCreate (cannot open), kIo (such as a full disk, with the path,
/// the reason of the system, and the bytes needed and free).
class Hdf5Writer {
 public:
  /// `expected_bytes`, if known, is the size of the whole file, for messages.
  explicit Hdf5Writer(const std::string& path, int64_t expected_bytes = 0,
                      FileDigest kind = FileDigest::kFlat);
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
  /// Throws DataError kIo if they differ, or the file cannot be read.
  void verify() const;
  /// Hexadecimal, of the committed file: XXH3-128, or the root of the tree.
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Private to data/. A list of elements that grows on the disk until its length is known, in a file that
/// never gets its name. Errors: those of AtomicFile, naming the output that it is for.
class TemporaryArray {
 public:
  TemporaryArray(const std::string& output, ElementType type)
      : type_(type),
        width_(static_cast<int64_t>(size_of(type))),
        file_(std::make_unique<AtomicFile>(output)) {
    file_->remove_name();
  }

  void append(const void* data, int64_t count) { file_->write(data, static_cast<size_t>(count * width_)); }
  int64_t size() const { return file_->size() / width_; }
  /// Writes all elements as a new dataset, and gives their room on the disk back as they are copied: once.
  void copy_to(Hdf5Writer& writer, const std::string& name);

 private:
  ElementType type_;
  int64_t width_;
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace ventris::data
