#pragma once

#include <hdf5.h>

// Private to data/files/hdf5_*.cc.

namespace ventris::data {

/// Lets files that are made or opened with these properties of file access be written and read through a
/// descriptor, which stays the caller's and outlives them. The name that the library is given is for messages
/// alone: nothing is opened. Under Hdf5Lock.
void use_descriptor(hid_t access, int fd);

}  // namespace ventris::data
