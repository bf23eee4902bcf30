// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/scores/metric.h"

namespace ventris::data {

/// Mean and half the width of the 95% confidence interval of a score, from scores of resamples.
struct Estimate {
  double mean = 0.0;
  double half_width = 0.0;
};

/// Bootstrap resampling (Koehn 2004) of one system. Throws DataError kBadData without sentences.
Estimate bootstrap_estimate(const Metric& metric, const Statistics& statistics, int64_t resamples,
                            uint64_t seed);

/// One system of a comparison. The first system is the baseline, which has no p-value.
struct PairedResult {
  double score = 0.0;
  std::optional<double> p_value;
  std::optional<Estimate> estimate;
};

/// Paired tests of every system against the first: the probability of a difference of scores at least as
/// large if both systems are equal. By bootstrap resampling, or by approximate randomization (Riezler and
/// Maxwell 2005), which swaps the translations of random sentences. Statistics of all systems are of `metric`
/// and of the same sentences.
std::vector<PairedResult> paired_bootstrap(const Metric& metric, std::span<const Statistics> systems,
                                           int64_t resamples, uint64_t seed);
std::vector<PairedResult> paired_randomization(const Metric& metric, std::span<const Statistics> systems,
                                               int64_t trials, uint64_t seed);

}  // namespace ventris::data
