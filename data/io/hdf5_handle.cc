// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_handle.h"

#include <bit>

#include "data/error.h"

namespace ventris::data {

static_assert(std::endian::native == std::endian::little,
              "the files hold little-endian numbers that are memory-mapped");

namespace {

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

herr_t keep_innermost(unsigned depth, const H5E_error2_t* error, void* text) {
  if (depth == 0 && error->desc != nullptr) {
    *static_cast<std::string*>(text) = error->desc;
  }
  return 0;
}

/// The upper half of an f32. The library has no name for it before version 2, but converts every described
/// floating-point type: h5py returns f32.
hid_t bf16_type() {
  static const hid_t type = [] {
    constexpr size_t kBits = 16, kExponentBits = 8, kMantissaBits = 7;
    const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(made, kBits - 1, kMantissaBits, kExponentBits, 0, kMantissaBits);
    H5Tset_precision(made, kBits);
    H5Tset_size(made, kBits / 8);
    return made;
  }();
  return type;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(library_mutex()) {
  static const bool ready = [] {
    H5dont_atexit();
    // A filter that the library does not know, which any file may name, would make it look for a plug-in in
    // its folders (HDF5_PLUGIN_PATH, or the one compiled in) and run the code of what it finds there: here,
    // and in the process that reads files from outside. Files of ours have no filters. What is set here also
    // holds in the processes that are forked later.
    return H5open() >= 0 && H5PLset_loading_state(0) >= 0;
  }();
  // A library that was built thread-safe has an error stack for each thread.
  thread_local const bool silent = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  static_cast<void>(silent);
  if (!ready) {
    fail(ErrorKind::kUnavailable,
         "the HDF5 library cannot be started without its plug-ins (H5open, H5PLset_loading_state): {}; "
         "is it the one of the build, and is there memory?",
         hdf5_reason());
  }
}

std::string hdf5_reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  const std::string mark = "error message = '";
  const size_t begin = text.find(mark);
  if (begin != std::string::npos) {
    const size_t end = text.find('\'', begin + mark.size());
    return text.substr(begin + mark.size(), end == std::string::npos ? end : end - begin - mark.size());
  }
  return text.empty() ? "the HDF5 library gave no reason" : text;
}

Hdf5Handle hdf5_file_access() {
  Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(access.id(), H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access.id(), 1, 64);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE == 0)
  H5Pset_file_locking(access.id(), false, true);
#endif
  return access;
}

hid_t hdf5_type(ElementType type) {
  const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I32LE, H5T_STD_I64LE,
                         H5T_STD_U8LE,   H5T_STD_I8LE,   bf16_type(),   H5T_STD_U16LE};
  return types[static_cast<size_t>(type)];
}

}  // namespace ventris::data
