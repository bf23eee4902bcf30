// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/observers/metrics_reader.h"
#include "trainer/observers/run_status.h"

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

/// Samples of the texts that `train --keep-valid-outputs` kept: of each set the kSampledLines lines
/// in the middle of as many equal parts of the set (all of a shorter one), after at most kSampledSteps
/// validations, spread evenly, the first and the last among them. Empty without such texts. Files that cannot
/// be read are as if they were not there: a run may remove them meanwhile.
std::vector<ValidSamples> read_valid_samples(const std::string& model_dir);

/// At most `most` numbers of 0 to size - 1, ascending and evenly spread: with the first and the last if
/// `with_ends`, otherwise the middles of equal parts.
std::vector<int64_t> evenly_spread(int64_t size, int64_t most, bool with_ends);

/// A small file of a run folder without its final line ends; "" if it does not exist. Throws
/// Error(kBadData) for a path that is no regular file, and DataError.
std::string text_of_run_file(const std::string& folder, const char* name);

/// Whether the run is recorded as running, but its process on this host is gone.
bool was_killed(const StatusRecord& status);

/// "done at step 1500, exit code 0"; "training has not begun" without a record.
std::string state_text(const std::optional<StatusRecord>& recorded);

/// What a run folder says about the run, apart from its checkpoints.
struct RunRecord {
  std::string folder;                  // as given
  std::optional<StatusRecord> status;  // none: training has not begun
  std::string command;                 // of the newest start, or ""
  std::map<std::string, std::string>
      options;  // of config.json as JSON: "model.d_ff" is "2048"; without format
  MetricsRecord metrics;
  std::vector<ValidSamples> samples;
};

/// Reads a run folder. Throws Error(kMissingInput) for a path that is none (it has neither config.json,
/// status.json nor metrics.jsonl), Error(kBadData) for a config.json that is no JSON object, and the errors
/// of read_metrics().
RunRecord read_run(const std::string& folder);

/// A message about lines of metrics.jsonl that were left out; "" if there are none.
std::string warning_of(const RunRecord& run);

}  // namespace ventris
