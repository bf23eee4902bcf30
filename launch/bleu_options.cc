#include "launch/bleu_options.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ventris {

void add_bleu_options(data::BleuOptions& bleu, OptionTable& table) {
  using data::BleuSmoothing;
  using data::BleuTokenizer;
  table.group("BLEU");
  table.choice<BleuTokenizer>("tokenize", bleu.tokenizer,
                              {{"13a", BleuTokenizer::k13a},
                               {"none", BleuTokenizer::kNone},
                               {"char", BleuTokenizer::kChar},
                               {"intl", BleuTokenizer::kInternational}},
                              "How both sides are cut into words; none for text that is tokenised already.");
  table.toggle("lowercase", bleu.lowercase, "Ignores case.");
  table.choice<BleuSmoothing>("smooth", bleu.smoothing,
                              {{"exp", BleuSmoothing::kExp},
                               {"floor", BleuSmoothing::kFloor},
                               {"add-k", BleuSmoothing::kAddK},
                               {"none", BleuSmoothing::kNone}},
                              "Smoothing of n-gram orders without a match.");
  table
      .number("smooth-value", bleu.smoothing_value, {.least = 0, .most = 1e6},
              "Value of floor (0.1 unless given) and of add-k (1 unless given).")
      .show = [] { return std::string(); };
}

std::string bleu_line(const data::BleuScore& score, const data::BleuOptions& bleu, size_t references) {
  const std::string verbose = data::bleu_verbose(score);
  return fmt::format("BLEU|{} {}\n", data::bleu_signature(bleu, static_cast<int>(references)),
                     verbose.substr(verbose.find('=')));
}

std::string bleu_json(const data::BleuScore& score, const data::BleuOptions& bleu, size_t references) {
  const nlohmann::json result = {{"name", "BLEU"},
                                 {"score", score.score},
                                 {"precisions", score.precisions},
                                 {"brevity_penalty", score.brevity_penalty},
                                 {"hypothesis_length", score.counts.hypothesis_length},
                                 {"reference_length", score.counts.reference_length},
                                 {"signature", data::bleu_signature(bleu, static_cast<int>(references))}};
  return result.dump() + "\n";
}

}  // namespace ventris
