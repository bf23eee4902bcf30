// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ventris {

/// Statistics since the last log line. Sums are over all ranks, without skipped steps.
struct IntervalSums {
  double loss = 0.0;  // over target tokens
  double nll = 0.0;   // likewise
  int64_t target_tokens = 0;
  int64_t source_tokens = 0;
  double flops = 0.0;    // of the model (model/flop_count.h)
  double seconds = 0.0;  // of training steps only, without validation and checkpoints
};

/// How far the steps of an interval used the CUDA devices.
struct DeviceUse {
  double flops_per_second = 0.0;  // of the model on one device, the mean over the ranks
  int64_t memory_bytes = 0;       // in use by all programs on the first rank's device
};

/// The steps since the last log line.
struct IntervalMetrics {
  int64_t step = 0;
  double epoch = 0.0;
  IntervalSums sums;
  double learning_rate = 0.0;
  double gradient_norm = 0.0;  // of the last step that was not skipped
  int64_t target_tokens = 0;   // trained on since the start
  double elapsed_seconds = 0.0;
  double seconds_left = 0.0;  // to the nearest end set by the options; not logged
  int64_t skipped_steps = 0;
  std::string stage = {};                                   // of the step; "" without a plan of stages
  std::vector<std::pair<std::string, int64_t>> pairs = {};  // drawn of each corpus since the start; likewise
  std::optional<DeviceUse> device = {};                     // on CUDA

  bool has_loss() const { return sums.target_tokens > 0; }
  double loss() const { return sums.loss / static_cast<double>(sums.target_tokens); }
  double nll() const { return sums.nll / static_cast<double>(sums.target_tokens); }
  double perplexity() const;
  double target_tokens_per_second() const;
  double source_tokens_per_second() const;
};

/// A 95% confidence interval.
struct ScoreInterval {
  double low = 0.0;
  double high = 0.0;
};

/// The result of a validation; its losses and scores are those of the set that decides which model is the
/// best.
struct ValidationMetrics {
  int64_t step = 0;
  double loss = 0.0;  // label-smoothed, per token
  double nll = 0.0;
  double perplexity() const;
  bool has_bleu = false;
  double bleu = 0.0;
  bool has_chrf = false;
  double chrf = 0.0;
  std::optional<ScoreInterval> bleu_interval = {};
  std::string signature = {};  // of BLEU; "" where it was logged before, as the next
  std::string chrf_signature = {};
  std::string name = {};                     // of the set, in `sets`
  std::vector<ValidationMetrics> sets = {};  // the others
  bool is_best = false;                      // so far in this run
  double seconds = 0.0;                      // that the validation took; not logged, as is_best

  /// The value of `metric`: bleu, chrf, loss or perplexity.
  double of(const std::string& metric) const;
};

/// exp(nll), kept finite.
double perplexity_of(double nll);

}  // namespace ventris
