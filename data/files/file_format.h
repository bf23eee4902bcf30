#pragma once

#include <string>
#include <string_view>

#include "data/error.h"

// Every file of ours tells its format, "ventris KIND VERSION": an HDF5 file as the attribute "format" of "/",
// a safetensors file under that key of its metadata, JSON under that key. A corpus says "ventris-corpus"
// there and has its version beside, as the attribute "format_version". docs/formats.md tells what changed
// when.

namespace ventris::data {

inline constexpr const char* kFormatKey = "format";
inline constexpr const char* kVersionKey = "format_version";

/// Formats of files that are JSON. Those from before version 0.2.0 do not tell theirs, which is 1.
inline constexpr const char* kConfigFormat = "ventris config 1";
inline constexpr const char* kMetricsFormat = "ventris metrics 1";  // of each line
inline constexpr const char* kBestFormat = "ventris best 1";
inline constexpr const char* kStatusFormat = "ventris status 1";
inline constexpr const char* kProbesFormat = "ventris probes 1";

/// A file that a later version of the program wrote.
class NewerFormat : public DataError {
 public:
  explicit NewerFormat(const std::string& message) : DataError(ErrorKind::kBadData, message) {}
};

/// Whether this is one of our formats, in a later version than this program reads.
bool is_newer_format(std::string_view format);

/// Throws NewerFormat, naming `path` and both versions, where is_newer_format(). Before anything else in the
/// file is judged, as other rules may hold there.
void refuse_newer_format(std::string_view format, const std::string& path);

}  // namespace ventris::data
