// SPDX-License-Identifier: Apache-2.0
#include "data/scores/significance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "data/error.h"

namespace ventris::data {
namespace {

constexpr size_t kPoolSize = 4;

/// numpy's SeedSequence(seed): a pool of mixed entropy from which the generator's state is drawn.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, kPoolSize> entropy = {static_cast<uint32_t>(seed),
                                                     static_cast<uint32_t>(seed >> 32)};
    uint32_t constant = 0x43b0d7e5;
    const auto hash = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < kPoolSize; ++i) pool_[i] = hash(entropy[i]);
    for (size_t from = 0; from < kPoolSize; ++from) {
      for (size_t to = 0; to < kPoolSize; ++to) {
        if (from == to) continue;
        const uint32_t mixed = 0xca01f9dd * pool_[to] - 0x4973f715 * hash(pool_[from]);
        pool_[to] = mixed ^ (mixed >> 16);
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    std::array<uint64_t, 4> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < 2 * words.size(); ++i) {
      uint32_t value = pool_[i % kPoolSize] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<uint64_t>(value) << (32 * (i % 2));
    }
    return words;
  }

 private:
  std::array<uint32_t, kPoolSize> pool_{};
};

/// The generator of numpy.random.default_rng(seed): PCG64 (O'Neill 2014) seeded by numpy's SeedSequence, from
/// which sacreBLEU 2.6.0 draws, so that intervals and p-values are the same.
class NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed) {
    const std::array<uint64_t, 4> words = SeedSequence(seed).state();
    const Word128 initial = Word128{words[0]} << 64 | words[1];
    const Word128 sequence = Word128{words[2]} << 64 | words[3];
    increment_ = sequence << 1 | 1;
    next64();
    state_ += initial;
    next64();
  }

  uint32_t next32() {
    has_half_ = !has_half_;
    if (has_half_) last_ = next64();
    return static_cast<uint32_t>(has_half_ ? last_ : last_ >> 32);
  }

  /// Uniform below n >= 1, without bias (Lemire 2019), as Generator.integers(n) draws an element.
  uint32_t below(uint32_t n) {
    if (n == 1) return 0;  // numpy draws nothing
    uint64_t product = static_cast<uint64_t>(next32()) * n;
    if (static_cast<uint32_t>(product) < n) {
      const uint32_t threshold = (0u - n) % n;
      while (static_cast<uint32_t>(product) < threshold) product = static_cast<uint64_t>(next32()) * n;
    }
    return static_cast<uint32_t>(product >> 32);
  }

 private:
  __extension__ using Word128 = unsigned __int128;
  uint64_t next64() {
    constexpr Word128 kMultiplier = Word128{0x2360ED051FC65DA4} << 64 | 0x4385DF649FCCF645;
    state_ = state_ * kMultiplier + increment_;
    const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    const auto rotation = static_cast<unsigned>(state_ >> 122);
    return folded >> rotation | folded << ((64 - rotation) & 63);
  }

  Word128 state_ = 0;
  Word128 increment_ = 0;
  uint64_t last_ = 0;
  bool has_half_ = false;  // the lower half of the last number is used, the upper one is not
};

/// Scores of resamples or trials. `single`: numpy would store them and compute in single precision.
struct Scores {
  std::vector<double> values;
  bool single = true;

  void add(ResampleScore score) {
    values.push_back(score.value);
    single = single && score.single;
  }
};

/// numpy's sum of a contiguous array.
template <typename Real>
Real pairwise_sum(const Real* values, size_t count) {
  constexpr size_t kLanes = 8;
  constexpr size_t kBlock = 128;
  if (count < kLanes) return std::accumulate(values, values + count, Real{0});
  if (count > kBlock) {
    const size_t half = count / 2 / kLanes * kLanes;
    return pairwise_sum(values, half) + pairwise_sum(values + half, count - half);
  }
  Real lane[kLanes];
  std::copy_n(values, kLanes, lane);
  size_t i = kLanes;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t k = 0; k < kLanes; ++k) lane[k] += values[i + k];
  }
  Real sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  for (; i < count; ++i) sum += values[i];
  return sum;
}

template <typename Real>
Real mean(const std::vector<double>& values) {
  const std::vector<Real> reals(values.begin(), values.end());
  return pairwise_sum(reals.data(), reals.size()) / static_cast<Real>(reals.size());
}

/// Half the distance between the 2.5th and 97.5th percentile of the sorted scores.
double half_width(const Scores& scores) {
  const size_t lower = scores.values.size() / 40;
  const double width = scores.values[scores.values.size() - lower - 1] - scores.values[lower];
  return 0.5 * (scores.single ? static_cast<double>(static_cast<float>(width)) : width);
}

/// numpy's mean of the sorted scores; in single precision it depends on the order.
Estimate numpy_estimate(Scores scores) {
  std::sort(scores.values.begin(), scores.values.end());
  return {scores.single ? static_cast<double>(mean<float>(scores.values)) : mean<double>(scores.values),
          half_width(scores)};
}

void check_sentences(std::span<const Statistics> systems) {
  for (const Statistics& system : systems) {
    if (system.sentences() == 0) fail(ErrorKind::kBadData, "there are no sentences to resample");
    if (system.sentences() == systems.front().sentences() && system.columns == systems.front().columns)
      continue;
    fail(ErrorKind::kBadData, "the systems to compare have {} and {} sentences", systems.front().sentences(),
         system.sentences());
  }
}

/// Scores of `resamples` corpora made of sentences drawn with replacement, the same ones for every system,
/// from sums in single precision.
std::vector<Scores> bootstrap(const Metric& metric, std::span<const Statistics> systems, int64_t resamples,
                              uint64_t seed) {
  check_sentences(systems);
  constexpr size_t kPadding = 8;
  const size_t sentences = systems.front().sentences();
  const size_t columns = systems.front().columns;
  const size_t stride = (columns + kPadding - 1) / kPadding * kPadding;
  std::vector<std::vector<float>> rows;
  for (const Statistics& system : systems) {
    std::vector<float>& padded = rows.emplace_back(sentences * stride, 0.0f);
    for (size_t i = 0; i < system.values.size(); ++i)
      padded[i / columns * stride + i % columns] = static_cast<float>(system.values[i]);
  }
  std::vector<Scores> scores(systems.size());
  std::vector<uint32_t> drawn(sentences);
  std::vector<float> sums(stride);
  NumpyRandom random(seed);
  for (int64_t sample = 0; sample < resamples; ++sample) {
    for (uint32_t& sentence : drawn) sentence = random.below(static_cast<uint32_t>(sentences));
    for (size_t s = 0; s < systems.size(); ++s) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (const uint32_t sentence : drawn) {
        const float* row = &rows[s][sentence * stride];
        for (size_t k = 0; k < stride; ++k) sums[k] += row[k];
      }
      scores[s].add(metric.score(std::span<const float>(sums).first(columns)));
    }
  }
  return scores;
}

/// The share of `differences` above the real one; both counts are increased by one, so that the p-value is
/// not too low.
double p_value(const std::vector<double>& differences, double real_difference) {
  const auto above = std::count_if(differences.begin(), differences.end(),
                                   [real_difference](double d) { return d > real_difference; });
  return static_cast<double>(above + 1) / static_cast<double>(differences.size() + 1);
}

/// Each difference of scores of two systems minus their mean.
template <typename Real>
std::vector<double> centred_differences(const Scores& a, const Scores& b) {
  std::vector<double> differences;
  for (size_t i = 0; i < a.values.size(); ++i)
    differences.push_back(std::abs(static_cast<Real>(a.values[i]) - static_cast<Real>(b.values[i])));
  const Real centre = mean<Real>(differences);
  for (double& difference : differences) difference = static_cast<Real>(difference) - centre;
  return differences;
}

/// By bootstrap resampling: `difference` is that of the real scores of `a` and `b`.
double bootstrap_p_value(const Scores& a, const Scores& b, double difference) {
  return a.single && b.single ? p_value(centred_differences<float>(a, b),
                                        static_cast<double>(static_cast<float>(std::abs(difference))))
                              : p_value(centred_differences<double>(a, b), std::abs(difference));
}

/// sacreBLEU keeps the counts of a trial as whole numbers, which drops the fraction of add-k's k.
Metric with_whole_smoothing(const Metric& metric) {
  MetricOptions options = metric.options();
  if (options.bleu.smoothing == BleuSmoothing::kAddK && options.bleu.smoothing_value > 0)
    options.bleu.smoothing_value = std::floor(options.bleu.smoothing_value);
  return Metric(metric.kind(), options);
}

}  // namespace

Estimate bootstrap_estimate(const Metric& metric, const Statistics& statistics, int64_t resamples,
                            uint64_t seed) {
  Scores scores = bootstrap(metric, std::span(&statistics, 1), resamples, seed).front();
  std::sort(scores.values.begin(), scores.values.end());
  long double sum = 0;  // sacreBLEU's mean is exact here
  for (const double score : scores.values) sum += score;
  const auto mean = static_cast<double>(sum / static_cast<long double>(resamples));
  return {scores.single ? static_cast<double>(static_cast<float>(mean)) : mean, half_width(scores)};
}

std::vector<PairedResult> paired_bootstrap(const Metric& metric, std::span<const Statistics> systems,
                                           int64_t resamples, uint64_t seed) {
  const std::vector<Scores> scores = bootstrap(metric, systems, resamples, seed);
  std::vector<PairedResult> results;
  for (size_t s = 0; s < systems.size(); ++s) {
    PairedResult result;
    result.score = metric.score(systems[s].sums());
    result.estimate = numpy_estimate(scores[s]);
    if (s > 0)
      result.p_value = bootstrap_p_value(scores[s], scores.front(), result.score - results.front().score);
    results.push_back(result);
  }
  return results;
}

std::vector<PairedResult> paired_randomization(const Metric& metric, std::span<const Statistics> systems,
                                               int64_t trials, uint64_t seed) {
  check_sentences(systems);
  const Metric of_trials = with_whole_smoothing(metric);
  const size_t sentences = systems.front().sentences();
  const size_t columns = systems.front().columns;
  const Statistics& baseline = systems.front();
  std::vector<PairedResult> results(systems.size());
  results[0].score = metric.score(baseline.sums());
  for (size_t s = 1; s < systems.size(); ++s) {
    results[s].score = metric.score(systems[s].sums());
    std::vector<double> differences;
    // Sums over the sentences that keep their place, then over those that are swapped. The order of the
    // additions is that of sacreBLEU: mean reference lengths are not whole, and ties with the real difference
    // count.
    std::vector<double> of_baseline(2 * columns);
    std::vector<double> of_system(2 * columns);
    std::vector<double> first(columns);
    std::vector<double> second(columns);
    NumpyRandom random(seed);
    uint32_t bits = 0;
    int left = 0;
    for (int64_t trial = 0; trial < trials; ++trial) {
      std::fill(of_baseline.begin(), of_baseline.end(), 0.0);
      std::fill(of_system.begin(), of_system.end(), 0.0);
      for (size_t i = 0; i < sentences; ++i) {
        if (left == 0) {
          bits = random.next32();
          left = 32;
        }
        const size_t place = (bits & 1) * columns;
        bits >>= 1;
        --left;
        const double* baseline_row = &baseline.values[i * columns];
        const double* system_row = &systems[s].values[i * columns];
        double* baseline_sum = &of_baseline[place];
        double* system_sum = &of_system[place];
        for (size_t k = 0; k < columns; ++k) baseline_sum[k] += baseline_row[k];
        for (size_t k = 0; k < columns; ++k) system_sum[k] += system_row[k];
      }
      for (size_t k = 0; k < columns; ++k) {
        first[k] = of_baseline[columns + k] + of_system[k];
        second[k] = of_baseline[k] + of_system[columns + k];
      }
      differences.push_back(std::abs(of_trials.score(first) - of_trials.score(second)));
    }
    results[s].p_value = p_value(differences, std::abs(results[0].score - results[s].score));
  }
  return results;
}

}  // namespace ventris::data
