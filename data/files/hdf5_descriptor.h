#pragma once

#include <hdf5.h>

// Private to data/files/hdf5_*.cc.

namespace ventris::data {

/// Makes files that are created or opened with these file access properties use a descriptor, which the
/// caller owns and must keep open. The name passed to the library is only for messages: nothing is opened.
/// Under Hdf5Lock.
void use_descriptor(hid_t access, int fd);

}  // namespace ventris::data
