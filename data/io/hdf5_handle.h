// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "data/io/element_type.h"

// Private to data/io/hdf5_*.cc: the HDF5 C library behind owning handles.

namespace ventris::data {

/// Held around every call of the HDF5 library, which may not be thread-safe. The first lock (per thread or
/// process) also disables the library's error output, its exit handler, which would try to complete a file
/// that could not be written, and its plug-ins.
class Hdf5Lock {
 public:
  /// Throws DataError kUnavailable if the library cannot be started without plug-ins.
  Hdf5Lock();

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Owns one HDF5 identifier. Created, used and destroyed under Hdf5Lock.
class Hdf5Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Hdf5Handle() = default;
  Hdf5Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  ~Hdf5Handle() { close(); }
  Hdf5Handle(Hdf5Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept {
    if (this != &other) {
      close();
      id_ = std::exchange(other.id_, -1);
      closer_ = other.closer_;
    }
    return *this;
  }

  hid_t id() const { return id_; }
  bool valid() const { return id_ >= 0; }
  /// False if the library could not close it; the identifier is released in either case.
  bool close() {
    const hid_t id = std::exchange(id_, -1);
    return id < 0 || closer_(id) >= 0;
  }

 private:
  hid_t id_ = -1;
  Closer closer_ = nullptr;
};

/// The reason of the last failed HDF5 call: the system's message if there is one, otherwise the innermost of
/// the library's.
std::string hdf5_reason();

/// File access: format bounds v110, no file locks (the digest and the rename guard our files), data aligned
/// to 64 bytes.
Hdf5Handle hdf5_file_access();

hid_t hdf5_type(ElementType type);

/// Of a file with one digest of all bytes; others have DigestTree::kMagic. 8 bytes without the final zero.
inline constexpr char kUserBlockMagic[] = "VENTRIS1";

}  // namespace ventris::data
