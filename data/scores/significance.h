#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/scores/metric.h"

namespace ventris::data {

/// The generator of numpy.random.default_rng(seed): PCG64 (O'Neill 2014) seeded by numpy's SeedSequence. The
/// tests below draw from it what sacreBLEU 2.6.0 draws, so that intervals and p-values are the same.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);
  uint64_t next64();
  uint32_t next32();
  /// Uniform below n >= 1, without bias (Lemire 2019), as Generator.integers(n) draws an element.
  uint32_t below(uint32_t n);

 private:
  __extension__ using Word128 = unsigned __int128;
  Word128 state_ = 0;
  Word128 increment_ = 0;
  std::optional<uint32_t> half_;  // upper half of the last number, whose lower half is used
};

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
