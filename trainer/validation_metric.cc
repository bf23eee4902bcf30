#include "trainer/validation_metric.h"

#include <algorithm>
#include <vector>

#include "backend/error.h"
#include "data/scores/line_tokenizer.h"
#include "data/scores/unspaced_text.h"

namespace ventris {

data::BleuOptions valid_bleu_options(const TrainOptions& options) {
  const auto tokenizer = data::bleu_tokenizer_named(options.valid_tokenize);
  if (!tokenizer)
    fail(ExitCode::kBadConfiguration, "--valid-tokenize {}: no such tokenizer", options.valid_tokenize);
  data::BleuOptions bleu{.tokenizer = *tokenizer, .tokenizer_path = options.valid_tokenize_with};
  data::load_line_tokenizer(bleu, "--valid-tokenize-with");
  return bleu;
}

bool valid_words_are_phrases(const TrainOptions& options, const data::Corpus& corpus) {
  constexpr int64_t kEnough = 1000;
  std::vector<std::string> references;
  for (int64_t i = 0; i < std::min(kEnough, corpus.valid().size()); ++i)
    references.push_back(corpus.valid_reference(i));
  return data::words_are_phrases(references, valid_bleu_options(options));
}

void resolve_valid_metric(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus) {
  if (options.valid_metric != "auto") return;
  const std::string before = recorded.substr(0, recorded.find(':'));
  if (!before.empty() && (before != "bleu" || options.valid_bleu)) {
    options.valid_metric = before;
  } else if (options.valid_bleu && !valid_words_are_phrases(options, corpus)) {
    options.valid_metric = "bleu";
  } else {
    options.valid_metric = options.valid_bleu || options.valid_chrf ? "chrf" : "loss";
  }
  options.valid_chrf = options.valid_chrf || options.valid_metric == "chrf";
}

std::string recorded_metric(const TrainOptions& options) {
  const bool usual = options.valid_tokenize == TrainOptions().valid_tokenize;
  if (options.valid_metric != "bleu" || usual) return options.valid_metric;
  return "bleu:" + data::tokenizer_label(valid_bleu_options(options));
}

}  // namespace ventris
