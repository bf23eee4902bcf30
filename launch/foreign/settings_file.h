// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ventris {

/// A key of a YAML file with its value: one text, those of a list, or none.
struct ForeignSetting {
  std::string key;
  std::vector<std::string> values;
  int line;  // from 1
};

/// Whether a text is YAML and not lines of 'option = value': its first line with content is 'key:', with or
/// without a value, '---', or a directive.
bool is_yaml(std::string_view text);

/// Reads YAML of one level, as Marian's configurations: keys with a text or a list of texts. Throws
/// Error(kBadConfiguration) with `origin` and the line for any other YAML, such as maps in maps, references
/// ('*name') and their anchors, several documents, and keys that are given twice. The memory it takes is a
/// small multiple of the text's.
std::vector<ForeignSetting> read_settings(std::string_view text, const std::string& origin);

}  // namespace ventris
