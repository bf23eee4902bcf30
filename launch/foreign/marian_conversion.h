// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/foreign/marian_options.h"

namespace ventris {

/// What a person should know of a converted option.
struct ConversionRemark {
  enum class Kind { kMissing, kDiffers, kNeedless };
  Kind kind;
  std::string place;  // the file, the line if the option stands there, the option and its value
  std::string text;
  std::string settled_by;  // option of ours that makes up for a missing one, if it is given; or ""
};

struct Conversion {
  std::vector<std::pair<std::string, std::string>> options;  // ours, as in a file of --config
  std::vector<ConversionRemark> remarks;
  std::string prepare;  // the options of 'ventris prepare' that make the corpus; "" if no text is named
};

/// The options of `ventris train` that compute what `marian` computes with a configuration in YAML; or those
/// of `ventris translate`, for `marian-decoder`. Options that the file leaves out have Marian's defaults.
/// Those with no effect, or with their default, have no remark. Throws Error(kBadConfiguration) with `origin`
/// and the line for what is no such configuration (launch/foreign/settings_file.h), an unknown option, a
/// value of another type, and a model that is no Transformer.
Conversion convert_marian(MarianUse use, std::string_view yaml, const std::string& origin);

/// What a text probably configures, by the names of its options.
MarianUse marian_use_of(std::string_view yaml, const std::string& origin);

}  // namespace ventris
