// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/command.h"
#include "launch/foreign/marian_conversion.h"

namespace ventris {

/// A remark for the standard error: "FILE:LINE: OPTION VALUE: no counterpart: ...".
std::string line_of(const ConversionRemark& remark);

/// Reads a YAML file of Marian for --config. `remarks` gets a line for each option of another meaning, and
/// must outlive the reader. The reader throws Error(kBadConfiguration) for an option that has no counterpart,
/// unless the command line gives what makes up for it: nothing is left out in silence.
ConfigReader marian_reader(MarianUse use, std::vector<std::string>& remarks);

}  // namespace ventris
