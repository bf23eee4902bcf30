// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ventris {

/// Whether messages have colours: if the standard error is a terminal, TERM is set and not "dumb", and
/// NO_COLOR is not set, or empty (https://no-color.org).
bool has_message_colours();

/// "error:" for messages, red on such a terminal.
std::string error_word();

/// A message; on such a terminal "warning:" or "Warning:" at its beginning is yellow.
std::string with_coloured_warning(const std::string& message);

}  // namespace ventris
