// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ventris {

/// What metrics.jsonl says of an interval.
struct LoggedLoss {
  int64_t step = 0;
  double loss = 0.0;
};

/// What it says of a validation; a value that a line lacks is empty.
struct LoggedValidation {
  int64_t step = 0;
  std::optional<double> loss = {}, perplexity = {}, bleu = {}, chrf = {};
};

/// A part of metrics.jsonl, for a picture.
struct MetricsSample {
  std::vector<LoggedLoss> losses;             // in the order of the file
  std::vector<LoggedValidation> validations;  // the last ones, the last first
};

/// Bytes that sample_metrics() reads of a log of any size: for the losses, and from its end for validations.
inline constexpr int64_t kSampledBytes = int64_t{1} << 20;
inline constexpr int64_t kValidationBytes = int64_t{4} << 20;

/// Reads all losses of a log of at most kSampledBytes; of a larger one those at 256 places of equal distance.
/// Of validations the last `validations` among the last kValidationBytes. Damaged lines are passed over; a
/// missing file has nothing. Throws Error(kIo), data::DataError, and data::NewerFormat for a line of a later
/// version.
MetricsSample sample_metrics(const std::string& path, size_t validations);

}  // namespace ventris
