// SPDX-License-Identifier: Apache-2.0
#include "trainer/run_metrics.h"

#include <algorithm>
#include <cmath>

namespace ventris {
namespace {

double per_second(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

}  // namespace

double perplexity_of(double nll) {
  return std::exp(std::min(nll, 700.0));
}

double IntervalMetrics::perplexity() const {
  return perplexity_of(nll());
}
double IntervalMetrics::target_tokens_per_second() const {
  return per_second(sums.target_tokens, sums.seconds);
}
double IntervalMetrics::source_tokens_per_second() const {
  return per_second(sums.source_tokens, sums.seconds);
}
double ValidationMetrics::perplexity() const {
  return perplexity_of(nll);
}

double ValidationMetrics::of(const std::string& metric) const {
  if (metric == "bleu") return bleu;
  if (metric == "chrf") return chrf;
  return metric == "loss" ? loss : perplexity();
}

}  // namespace ventris
