// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "data/scores/moses_punctuation.h"
#include "data/scores/moses_tokenize.h"
#include "data/scores/score_protocol.h"
#include "data/scores/score_text.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"

namespace ventris {

namespace {

struct TokenizeCommandOptions {
  std::string input = "-";
  std::string language;
  bool lowercase = false;
  bool normalize = false;
  bool ascii_punctuation = false;
  bool no_escape = false;
  bool split_compounds = false;
};

int run_tokenize(const TokenizeCommandOptions& options) {
  const data::MosesLanguage language = data::moses_language(options.language, "--language");
  std::string text;
  for (std::string line : read_text(options.input)) {
    if (options.lowercase) line = data::lower_text(line);
    if (options.normalize) line = data::moses_normalize_punctuation(line, language);
    if (options.ascii_punctuation) line = data::moses_replace_unicode_punctuation(line);
    line = data::moses_tokenize(line, {.language = language, .escape = !options.no_escape});
    text += (options.split_compounds ? data::split_compounds(line) : line) + "\n";
  }
  write_output(text);
  return 0;
}

}  // namespace

Command tokenize_command() {
  const auto options = std::make_shared<TokenizeCommandOptions>();
  Command command;
  command.name = "tokenize";
  command.summary = "tokenizes text like the tokenizer of Moses";
  command.synopsis = "--language en|de|fr|cs [--input FILE] [options]";
  command.description = {
      "Writes each line with one space between words and punctuation, by the rules of the Moses "
      "scripts that prepared the corpora of most papers. Use it for text to compare with theirs; "
      "`prepare` needs no tokenised text. The steps are applied in the order of the options below."};
  command.examples = {{"tokenize --language de --lowercase --normalize-punctuation --input train.de",
                       "Multi30k as published by its authors:"},
                      {"tokenize --language de --ascii-punctuation --split-compounds --input newstest.de",
                       "The words of `bleu --protocol paper`:"}};
  OptionTable& table = command.options;
  table.group("Text");
  table.text("input", "FILE", options->input,
             "Text, one sentence per line, plain or gzipped; - is the standard input.");
  table.text("language", "en|de|fr|cs", options->language, "Language of the text.").required = true;
  table.group("Steps");
  table.toggle("lowercase", options->lowercase, "Converts the text to lower case.");
  table.toggle(
      "normalize-punctuation", options->normalize,
      "Converts quotes, dashes and spaces of the language to ASCII, like normalize-punctuation.perl.");
  table.toggle(
      "ascii-punctuation", options->ascii_punctuation,
      "Converts typographic and full-width punctuation to ASCII, like replace-unicode-punctuation.perl.");
  table.toggle("no-escape", options->no_escape, "Does not replace & | < > ' \" [ ] with entities.");
  table.toggle("split-compounds", options->split_compounds,
               "Splits words at hyphens: rich ##AT##-##AT## text.");
  command.run = [options](Job&) { return run_tokenize(*options); };
  return command;
}

}  // namespace ventris
