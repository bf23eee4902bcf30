// SPDX-License-Identifier: Apache-2.0
#include "launch/options/bleu_options.h"

namespace ventris {

namespace {

template <typename T>
Option& add_tokenize_option(T& variable, std::vector<std::pair<std::string, T>> choices, OptionTable& table,
                            const std::string& help) {
  for (const data::BleuTokenizer tokenizer : data::kBleuTokenizers)
    choices.emplace_back(name_of(tokenizer), tokenizer);
  return table.choice<T>("tokenize", variable, choices,
                         "Tokenizer for both sides; none is for text that is already tokenised." + help);
}

}  // namespace

void add_bleu_options(data::BleuOptions& bleu, OptionTable& table,
                      std::optional<data::BleuTokenizer>* chosen) {
  using data::BleuSmoothing;
  table.group("BLEU");
  Option& tokenize =
      chosen == nullptr
          ? add_tokenize_option<data::BleuTokenizer>(bleu.tokenizer, {}, table, "")
          : add_tokenize_option<std::optional<data::BleuTokenizer>>(
                *chosen, {{"auto", std::nullopt}}, table,
                " auto: by the script of the references: zh, char for other text without spaces between words, "
                "or 13a.");
  tokenize.aliases = {"-tok"};
  table.toggle("lowercase", bleu.lowercase, "Ignores case.").aliases = {"-lc"};
  table
      .choice<BleuSmoothing>("smooth", bleu.smoothing,
                             {{"exp", BleuSmoothing::kExp},
                              {"floor", BleuSmoothing::kFloor},
                              {"add-k", BleuSmoothing::kAddK},
                              {"none", BleuSmoothing::kNone}},
                             "Smoothing of n-gram orders without a match.")
      .aliases = {"-s", "--smooth-method"};
  Option& value = table.number("smooth-value", bleu.smoothing_value, {.min = 0, .max = 1e6},
                               "Value for floor (default 0.1) and add-k (default 1).");
  value.aliases = {"-sv"};
  value.show = [] { return std::string(); };
  table.toggle("effective-order", bleu.effective_order,
               std::string("Leaves out orders for which a text has no n-gram") +
                   (chosen == nullptr ? "; always on with --sentence-level." : "."));
  table.integer("max-ngram-order", bleu.max_ngram_order, {.min = 1, .max = data::kMaxBleuOrder},
                "Length of the longest n-grams, in words.");
}

void add_protocol_options(data::ProtocolOptions& options, OptionTable& table) {
  table.choice<bool>(
      "protocol", options.paper, {{"sacrebleu", false}, {"paper", true}},
      "paper: tokenised BLEU as in the Transformer paper: the tokenizer of Moses, compounds split "
      "at hyphens, no smoothing. It is labelled as such, and is not comparable with scores of sacreBLEU.");
  table.optional_text("language", "en|de|fr|cs", options.language,
                      "Language of the text, for --protocol paper.");
}

void add_chrf_options(data::ChrfOptions& chrf, OptionTable& table) {
  table.group("chrF");
  table.integer("chrf-char-order", chrf.char_order, {.min = 1, .max = data::kMaxChrfOrder},
                "Length of the longest character n-grams.");
  table.integer("chrf-word-order", chrf.word_order, {.min = 0, .max = data::kMaxChrfOrder},
                "Length of the longest word n-grams; 2 gives chrF++.");
  table.integer("chrf-beta", chrf.beta, {.min = 1, .max = 100}, "Weight of recall over precision.");
  table.toggle("chrf-whitespace", chrf.whitespace, "Counts white space as characters.");
  table.toggle("chrf-lowercase", chrf.lowercase, "Ignores case.");
  table.toggle("chrf-eps-smoothing", chrf.eps_smoothing,
               "Includes orders without n-grams, as chrF++.py, NLTK and Moses do.");
}

}  // namespace ventris
