// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/io/atomic_file.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_writer.h"

// Private to data/.

namespace ventris::data {

/// A list of elements that grows on the disk until its length is known, in a file that never gets its name.
/// Errors: those of AtomicFile, naming the output that it is for.
class SpoolFile {
 public:
  SpoolFile(const std::string& output, ElementType type)
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
