// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace ventris {

enum class MarianUse { kTraining, kDecoding };

/// What becomes of an option of Marian.
enum class MarianFate {
  kConverted,  // marian_conversion.cc has the rule
  kMissing,    // it changes what is computed, and no option of ours does that
  kNeedless,   // nothing that is computed depends on it here
};

struct MarianOption {
  std::string_view name;
  std::string_view standard;  // Marian's default; the values of a list are separated by blanks
  MarianFate fate;
  std::string_view reason;  // why there is no option of ours, or what does the same; empty for kConverted
                            // and for what is ignored by Marian itself
};

/// The option of `marian` or `marian-decoder` of that name, without dashes. For decoding those of training
/// and of models too: the decoder takes the latter from the model.
std::optional<MarianOption> find_marian_option(MarianUse use, std::string_view name);

/// Whether `marian-decoder` has the option, and `marian` has not.
bool is_of_decoding_alone(std::string_view name);

}  // namespace ventris
