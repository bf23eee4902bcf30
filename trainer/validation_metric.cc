// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_metric.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "backend/error.h"
#include "comm/communicator.h"
#include "data/scores/fitting_tokenizer.h"
#include "data/scores/line_tokenizer.h"
#include "data/scores/score_protocol.h"
#include "data/scores/unspaced_text.h"

namespace ventris {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kUsual = "13a";

/// The tokenizer of a recorded_metric() that needs no file from the user; empty if there is none.
std::string recorded_tokenizer(const std::string& recorded) {
  const std::string bleu = "bleu";
  const std::string metric = recorded.substr(0, recorded.find('|'));  // what follows says no more of it
  if (metric == bleu) return kUsual;
  if (!metric.starts_with(bleu + ":")) return "";
  const std::string label = metric.substr(bleu.size() + 1);
  for (const data::BleuTokenizer tokenizer : data::kBleuTokenizers) {
    const std::string name = name_of(tokenizer);
    if (label != name && !label.starts_with(name + "-")) continue;
    const bool needs_file = tokenizer != data::BleuTokenizer::kJapaneseMecab &&
                            data::needs_line_tokenizer({.tokenizer = tokenizer});
    return needs_file ? "" : name;
  }
  return "";
}

bool is_paper(const TrainOptions& options) {
  return options.valid_protocol.protocol == data::ScoreProtocol::kPaper;
}

data::BleuOptions bleu_options_of(const TrainOptions& options) {
  const auto tokenizer =
      data::bleu_tokenizer_named(options.valid_tokenize == kAuto ? kUsual : options.valid_tokenize);
  if (!tokenizer)
    fail(ExitCode::kBadConfiguration, "--valid-tokenize {}: no such tokenizer", options.valid_tokenize);
  data::BleuOptions bleu{.tokenizer = *tokenizer,
                         .tokenizer_path = options.valid_tokenize_with,
                         .lowercase = options.valid_lowercase};
  data::load_line_tokenizer(bleu, "--valid-tokenize-with");
  return bleu;
}

}  // namespace

ValidationScorer::ValidationScorer(const TrainOptions& options)
    : ValidationScorer(options, bleu_options_of(options)) {}

ValidationScorer::ValidationScorer(const TrainOptions& options, data::BleuOptions bleu)
    : paper_(data::paper_protocol(options.valid_protocol, bleu, "--valid-")),
      bleu_(data::MetricKind::kBleu, {.bleu = bleu, .chrf = {}}),
      chrf_(data::MetricKind::kChrf, {.bleu = {}, .chrf = {.lowercase = options.valid_lowercase}}) {}

const data::Metric& ValidationScorer::metric(data::MetricKind kind) const {
  return kind == data::MetricKind::kBleu ? bleu_ : chrf_;
}

data::Statistics ValidationScorer::count(data::MetricKind kind, std::vector<std::string> translations,
                                         std::vector<std::string> references) const {
  if (paper_ && kind == data::MetricKind::kBleu) {
    data::to_paper_words(translations, *paper_, false);
    data::to_paper_words(references, *paper_, true);
  }
  return metric(kind).count(translations, {std::move(references)});
}

std::string ValidationScorer::signature(data::MetricKind kind) const {
  const std::string trials = fmt::format("bs:{}|seed:{}", kValidResamples, kValidSeed);
  if (paper_ && kind == data::MetricKind::kBleu) return data::paper_signature(*paper_, 1, trials);
  return metric(kind).signature(1, trials);
}

std::string ValidationScorer::label(data::MetricKind kind) const {
  if (kind == data::MetricKind::kChrf) return chrf_.options().chrf.lowercase ? "lc" : "";
  if (paper_) return data::paper_signature(*paper_, 1);
  const std::string tokenizer = data::tokenizer_label(bleu_.options().bleu);
  if (bleu_.options().bleu.lowercase) return tokenizer + "|lc";
  return tokenizer == kUsual ? "" : tokenizer;
}

bool ValidationScorer::words_are_phrases(const std::vector<std::string>& references) const {
  return !paper_ && data::words_are_phrases(references, bleu_.options().bleu);
}

std::string resolve_valid_tokenizer(TrainOptions& options, const std::string& recorded,
                                    const std::vector<std::string>& references, Communicator& communicator) {
  const bool chooses = options.valid_tokenize == kAuto && recorded_tokenizer(recorded).empty() &&
                       options.valid_bleu && options.valid_every > 0 && !is_paper(options);
  const bool fits_another = chooses && data::words_are_phrases(references, {});
  // Every rank computes BLEU. On every rank, as their options and corpora may still differ.
  const std::vector<std::string> missing =
      communicator.all_gather(fits_another && !data::has_japanese_mecab() ? "MeCab" : "");
  if (options.valid_tokenize != kAuto) return "";
  if (!fits_another) {
    const std::string before = is_paper(options) ? "" : recorded_tokenizer(recorded);
    options.valid_tokenize = before.empty() ? kUsual : before;
    return "";
  }
  const bool all_have_mecab =
      std::ranges::all_of(missing, [](const std::string& what) { return what.empty(); });
  const data::FittingTokenizer fitting = data::fitting_tokenizer(references, all_have_mecab);
  options.valid_tokenize = name_of(fitting.tokenizer);
  return fmt::format("BLEU of the validation is computed with the tokenizer {}: {} (--valid-tokenize)",
                     options.valid_tokenize, fitting.reason);
}

void check_valid_target(const TrainOptions& options) {
  constexpr double kMost = 100.0;
  if (!sentence_metric(options) || options.valid_target <= kMost) return;
  fail(ExitCode::kBadConfiguration,
       "--valid-target is {:g}, but --valid-metric {} is at most {:g}, so it would never be reached: give a "
       "lower one, or 0 for none",
       options.valid_target, options.valid_metric, kMost);
}

void resolve_valid_metric(TrainOptions& options, const std::string& recorded,
                          const std::vector<std::string>& references) {
  if (options.valid_metric == kAuto) {
    const std::string before = metric_of(recorded);
    if (!before.empty() && (before != "bleu" || options.valid_bleu)) {
      options.valid_metric = before;
    } else if (options.valid_bleu && !ValidationScorer(options).words_are_phrases(references)) {
      options.valid_metric = "bleu";
    } else {
      options.valid_metric = options.valid_bleu || options.valid_chrf ? "chrf" : "loss";
    }
    options.valid_chrf = options.valid_chrf || options.valid_metric == "chrf";
  }
  check_valid_target(options);
  if (options.best == kSignificantBest && options.valid_every > 0 && !sentence_metric(options)) {
    fail(ExitCode::kBadConfiguration,
         "--best significant resamples sentences for BLEU or chrF, but --valid-metric is {}; "
         "give --valid-metric bleu or chrf",
         options.valid_metric);
  }
}

std::optional<data::MetricKind> sentence_metric(const TrainOptions& options) {
  if (options.valid_metric == "bleu") return data::MetricKind::kBleu;
  if (options.valid_metric == "chrf") return data::MetricKind::kChrf;
  return std::nullopt;
}

std::string metric_of(const std::string& recorded) {
  return recorded.substr(0, recorded.find_first_of(":|"));
}

std::string recorded_metric(const TrainOptions& options, const std::string& sets) {
  const auto kind = sentence_metric(options);
  const std::string label = kind ? ValidationScorer(options).label(*kind) : "";
  return options.valid_metric + (label.empty() ? "" : ":" + label) + (sets.empty() ? "" : "|" + sets);
}

std::string signature_of_metric(const TrainOptions& options) {
  const auto kind = sentence_metric(options);
  return kind ? ValidationScorer(options).signature(*kind) : "";
}

}  // namespace ventris
