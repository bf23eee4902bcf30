#include "trainer/validation_metric.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "backend/error.h"
#include "comm/communicator.h"
#include "data/scores/fitting_tokenizer.h"
#include "data/scores/line_tokenizer.h"
#include "data/scores/unspaced_text.h"

namespace ventris {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kUsual = "13a";

std::vector<std::string> first_references(const data::Corpus& corpus) {
  constexpr int64_t kEnough = 1000;
  std::vector<std::string> references;
  for (int64_t i = 0; i < std::min(kEnough, corpus.valid().size()); ++i)
    references.push_back(corpus.valid_reference(i));
  return references;
}

/// The tokenizer of a recorded_metric() that needs no file from the user; empty if there is none.
std::string recorded_tokenizer(const std::string& recorded) {
  const std::string bleu = "bleu:";
  if (recorded == "bleu") return kUsual;
  if (!recorded.starts_with(bleu)) return "";
  const std::string label = recorded.substr(bleu.size());
  for (const data::BleuTokenizer tokenizer : data::kBleuTokenizers) {
    const std::string name = name_of(tokenizer);
    if (label != name && !label.starts_with(name + "-")) continue;
    const bool needs_file = tokenizer != data::BleuTokenizer::kJapaneseMecab &&
                            data::needs_line_tokenizer({.tokenizer = tokenizer});
    return needs_file ? "" : name;
  }
  return "";
}

}  // namespace

std::string resolve_valid_tokenizer(TrainOptions& options, const std::string& recorded,
                                    const data::Corpus& corpus, Communicator& communicator) {
  const bool chooses = options.valid_tokenize == kAuto && recorded_tokenizer(recorded).empty() &&
                       options.valid_bleu && options.valid_every > 0;
  const std::vector<std::string> references = chooses ? first_references(corpus) : std::vector<std::string>();
  const bool fits_another = chooses && data::words_are_phrases(references, {});
  // Every rank computes BLEU. On every rank, as their options and corpora may still differ.
  const std::vector<std::string> missing =
      communicator.all_gather(fits_another && !data::has_japanese_mecab() ? "MeCab" : "");
  if (options.valid_tokenize != kAuto) return "";
  if (!fits_another) {
    const std::string before = recorded_tokenizer(recorded);
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

data::BleuOptions valid_bleu_options(const TrainOptions& options) {
  const auto tokenizer =
      data::bleu_tokenizer_named(options.valid_tokenize == kAuto ? kUsual : options.valid_tokenize);
  if (!tokenizer)
    fail(ExitCode::kBadConfiguration, "--valid-tokenize {}: no such tokenizer", options.valid_tokenize);
  data::BleuOptions bleu{.tokenizer = *tokenizer, .tokenizer_path = options.valid_tokenize_with};
  data::load_line_tokenizer(bleu, "--valid-tokenize-with");
  return bleu;
}

bool valid_words_are_phrases(const TrainOptions& options, const data::Corpus& corpus) {
  return data::words_are_phrases(first_references(corpus), valid_bleu_options(options));
}

void resolve_valid_metric(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus) {
  if (options.valid_metric != "auto") return;
  const std::string before = metric_of(recorded);
  if (!before.empty() && (before != "bleu" || options.valid_bleu)) {
    options.valid_metric = before;
  } else if (options.valid_bleu && !valid_words_are_phrases(options, corpus)) {
    options.valid_metric = "bleu";
  } else {
    options.valid_metric = options.valid_bleu || options.valid_chrf ? "chrf" : "loss";
  }
  options.valid_chrf = options.valid_chrf || options.valid_metric == "chrf";
}

std::string metric_of(const std::string& recorded) {
  return recorded.substr(0, recorded.find(':'));
}

std::string recorded_metric(const TrainOptions& options) {
  if (options.valid_metric != "bleu" || options.valid_tokenize == kUsual) return options.valid_metric;
  return "bleu:" + data::tokenizer_label(valid_bleu_options(options));
}

}  // namespace ventris
