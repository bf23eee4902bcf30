// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/scores/bleu.h"
#include "data/scores/metric.h"
#include "trainer/train_options.h"

namespace ventris {

/// How translations of validation sets are scored.
class ValidationScorer {
 public:
  /// 13a for --valid-tokenize auto. Throws Error(kBadConfiguration) if --valid-tokenize is unknown.
  explicit ValidationScorer(const TrainOptions& options);

  const data::Metric& bleu() const { return bleu_; }
  const data::Metric& chrf() const { return chrf_; }
  const data::Metric& metric(data::MetricKind kind) const;
  data::Statistics count(data::MetricKind kind, std::vector<std::string> translations,
                         std::vector<std::string> references) const;
  /// Of sacreBLEU, with that of the resamples of the interval.
  std::string signature(data::MetricKind kind) const;
  /// What its scores are compared by: "" for BLEU with 13a and chrF, "zh", ...
  std::string label(data::MetricKind kind) const;
  /// Whether the lines are of words of phrases for BLEU (data/scores/unspaced_text.h).
  bool words_are_phrases(const std::vector<std::string>& references) const;

 private:
  data::Metric bleu_;
  data::Metric chrf_;
};

/// Resamples of intervals, those of sacreBLEU's defaults.
inline constexpr int64_t kValidResamples = 1000;
inline constexpr uint64_t kValidSeed = 12345;

/// Replaces --valid-tokenize auto: by the tokenizer of the checkpoint of a resumed run, if it recorded one
/// (`recorded`, from recorded_metric(); "" for a new run); otherwise by the one that fits the references
/// (data/scores/unspaced_text.h), or 13a if nothing is translated.
/// Returns a message with the choice and its reason, empty for 13a and for the tokenizer of a checkpoint. The
/// same on every rank; all must call it, whatever their options, as they need not have been compared.
std::string resolve_valid_tokenizer(TrainOptions& options, const std::string& recorded,
                                    const std::vector<std::string>& references);

/// Replaces --valid-metric auto: by the metric of the checkpoint of a resumed run (`recorded`, from
/// recorded_metric(); "" for a new run); otherwise by chrF if the references have no spaces although
/// --valid-tokenize needs them, or BLEU; by the loss if nothing is translated. The same on every rank.
void resolve_valid_metric(TrainOptions& options, const std::string& recorded,
                          const std::vector<std::string>& references);

/// BLEU or chrF if that is the --valid-metric, whose scores are of sentences.
std::optional<data::MetricKind> sentence_metric(const TrainOptions& options);

/// The --valid-metric of a recorded_metric().
std::string metric_of(const std::string& recorded);

/// A text that is equal for comparable values of the metric: "chrf", "bleu" with 13a, "bleu:zh" with another
/// tokenizer.
std::string recorded_metric(const TrainOptions& options);

/// The signature of the --valid-metric; "" for the loss and perplexity.
std::string signature_of_metric(const TrainOptions& options);

}  // namespace ventris
