// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ventris::fuzz {

// Checksums made right again after bytes were changed, so that the code behind the check meets the change.
// What has no place for them is given back as it is.

/// A file of ours: the checksums in the structures of HDF5, and the user block.
std::string with_right_digests(std::string_view bytes);

/// A safetensors file of ours: the digest in its metadata.
std::string with_right_safetensors_digest(std::string_view bytes);

/// A zip archive: the CRC-32 of entries in its directory.
std::string with_right_zip_checksums(std::string_view bytes);

}  // namespace ventris::fuzz
