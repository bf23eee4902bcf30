// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <string>

// Private to data/io/hdf5_*.cc.

namespace ventris::data {

class DigestTree;

/// Compares what the library reads.
struct CheckedReads {
  const DigestTree* tree = nullptr;  // none: nothing is compared
  std::string* damage = nullptr;     // gets the message of the first difference, which makes the read fail
};

/// Makes files that are created or opened with these file access properties use a descriptor, which the
/// caller owns and must keep open, as the objects of `reads`. The name passed to the library is only for
/// messages: nothing is opened. Under Hdf5Lock.
void use_descriptor(hid_t access, int fd, const CheckedReads& reads = {});

}  // namespace ventris::data
