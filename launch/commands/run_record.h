// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/pages/valid_samples.h"
#include "trainer/observers/metrics_reader.h"
#include "trainer/observers/run_status.h"

namespace ventris {

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
