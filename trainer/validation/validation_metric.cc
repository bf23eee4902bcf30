// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation/validation_metric.h"

#include <fmt/core.h>

#include <utility>

#include "backend/device/error.h"
#include "data/scores/unspaced_text.h"

namespace ventris {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kUsual = "13a";

/// The tokenizer of a recorded_metric(); empty if there is none.
std::string recorded_tokenizer(const std::string& recorded) {
  const std::string bleu = "bleu";
  if (recorded == bleu) return kUsual;
  if (!recorded.starts_with(bleu + ":")) return "";
  const std::string label = recorded.substr(bleu.size() + 1);
  return data::bleu_tokenizer_named(label) ? label : "";
}

data::BleuOptions bleu_options_of(const TrainOptions& options) {
  const auto tokenizer =
      data::bleu_tokenizer_named(options.valid_tokenize == kAuto ? kUsual : options.valid_tokenize);
  if (!tokenizer)
    fail(ExitCode::kBadConfiguration, "--valid-tokenize {}: no such tokenizer", options.valid_tokenize);
  return {.tokenizer = *tokenizer};
}

}  // namespace

ValidationScorer::ValidationScorer(const TrainOptions& options)
    : bleu_(data::MetricKind::kBleu, {.bleu = bleu_options_of(options), .chrf = {}}),
      chrf_(data::MetricKind::kChrf, {.bleu = {}, .chrf = {}}) {}

const data::Metric& ValidationScorer::metric(data::MetricKind kind) const {
  return kind == data::MetricKind::kBleu ? bleu_ : chrf_;
}

data::Statistics ValidationScorer::count(data::MetricKind kind, std::vector<std::string> translations,
                                         std::vector<std::string> references) const {
  return metric(kind).count(translations, {std::move(references)});
}

std::string ValidationScorer::signature(data::MetricKind kind) const {
  const std::string trials = fmt::format("bs:{}|seed:{}", kValidResamples, kValidSeed);
  return metric(kind).signature(1, trials);
}

std::string ValidationScorer::label(data::MetricKind kind) const {
  if (kind == data::MetricKind::kChrf) return "";
  const std::string tokenizer = name_of(bleu_.options().bleu.tokenizer);
  return tokenizer == kUsual ? "" : tokenizer;
}

bool ValidationScorer::words_are_phrases(const std::vector<std::string>& references) const {
  return data::words_are_phrases(references, bleu_.options().bleu);
}

std::string resolve_valid_tokenizer(TrainOptions& options, const std::string& recorded,
                                    const std::vector<std::string>& references) {
  if (options.valid_tokenize != kAuto) return "";
  const std::string before = recorded_tokenizer(recorded);
  options.valid_tokenize = before.empty() ? kUsual : before;
  if (!before.empty() || !options.translates_validation() || options.valid_every <= 0) return "";
  const data::FittingTokenizer fitting = data::fitting_tokenizer(references);
  if (fitting.reason.empty()) return "";
  options.valid_tokenize = name_of(fitting.tokenizer);
  return fmt::format("BLEU of the validation is computed with the tokenizer {}: {} (--valid-tokenize)",
                     options.valid_tokenize, fitting.reason);
}

void resolve_valid_metric(TrainOptions& options, const std::string& recorded,
                          const std::vector<std::string>& references) {
  if (options.valid_metric != kAuto) return;
  const std::string before = metric_of(recorded);
  const bool is_of_translations = before == "bleu" || before == "chrf";
  if (!options.translates_validation()) {
    options.valid_metric = before.empty() || is_of_translations ? "loss" : before;
  } else if (!before.empty()) {
    options.valid_metric = before;
  } else {
    options.valid_metric = ValidationScorer(options).words_are_phrases(references) ? "chrf" : "bleu";
  }
}

std::optional<data::MetricKind> sentence_metric(const TrainOptions& options) {
  if (options.valid_metric == "bleu") return data::MetricKind::kBleu;
  if (options.valid_metric == "chrf") return data::MetricKind::kChrf;
  return std::nullopt;
}

std::string metric_of(const std::string& recorded) {
  return recorded.substr(0, recorded.find(':'));
}

std::string recorded_metric(const TrainOptions& options) {
  const auto kind = sentence_metric(options);
  const std::string label = kind ? ValidationScorer(options).label(*kind) : "";
  return options.valid_metric + (label.empty() ? "" : ":" + label);
}

std::string signature_of_metric(const TrainOptions& options) {
  const auto kind = sentence_metric(options);
  return kind ? ValidationScorer(options).signature(*kind) : "";
}

}  // namespace ventris
