// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "data/error.h"

// Every file of ours has its format, "ventris KIND VERSION": an HDF5 file as the attribute "format" of "/", a
// safetensors file under that key of its metadata, JSON under that key. A corpus has "ventris-corpus" there
// and its version in the attribute "format_version". docs/formats.md lists the changes.

namespace ventris::data {

inline constexpr const char* kFormatKey = "format";
inline constexpr const char* kVersionKey = "format_version";

inline constexpr const char* kCorpusFormat = "ventris-corpus";

/// Formats of JSON files. Those from before version 0.2.0 have no format key, which means 1.
inline constexpr const char* kConfigFormat = "ventris config 1";
inline constexpr const char* kMetricsFormat = "ventris metrics 1";  // of each line
inline constexpr const char* kBestFormat = "ventris best 1";
inline constexpr const char* kStatusFormat = "ventris status 1";
inline constexpr const char* kProbesFormat = "ventris probes 1";

/// A file written by a later version of the program.
class NewerFormat : public DataError {
 public:
  explicit NewerFormat(const std::string& message) : DataError(ErrorKind::kBadData, message) {}
};

/// Whether this is one of our formats, in any version. A corpus has another text there.
bool is_format_of_ours(std::string_view format);

/// Whether this is one of our formats, in a later version than this program reads.
bool is_newer_format(std::string_view format);

/// Throws NewerFormat, naming `path` and both versions, if is_newer_format(). Must be called before the file
/// is otherwise checked, as other rules may apply to it.
void refuse_newer_format(std::string_view format, const std::string& path);

}  // namespace ventris::data
