// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// Some sentences of a validation set and their translations after the validations of a run.
struct ValidSamples {
  std::string set;
  std::vector<int64_t> lines;                          // of the set, from 1
  std::vector<std::string> sources;                    // of each line, "" if the run did not keep it
  std::vector<std::string> references;                 // likewise
  std::vector<int64_t> steps;                          // rising
  std::vector<std::vector<std::string>> translations;  // [steps][lines], "" where a step has fewer lines
};

inline constexpr size_t kSampledLines = 10;
inline constexpr size_t kSampledSteps = 24;
/// A longer line is cut, between two characters, and ends with an ellipsis.
inline constexpr size_t kMaxSampleBytes = 2000;

/// Of the texts that `train --keep-valid-outputs` kept in the run folder: of each set the kSampledLines lines
/// in the middle of as many equal parts of the set (all of a shorter one), after at most kSampledSteps
/// validations, spread evenly, the first and the last among them. Empty without such texts. Files that cannot
/// be read are as if they were not there: a run may remove them meanwhile.
std::vector<ValidSamples> read_valid_samples(const std::string& model_dir);

/// Of 0 to size - 1 at most `most` numbers, rising and evenly spread: the first and the last of them, if
/// `with_ends`, or those in the middle of equal parts.
std::vector<int64_t> evenly_spread(int64_t size, int64_t most, bool with_ends);

}  // namespace ventris
