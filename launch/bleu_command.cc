#include <memory>

#include "launch/bleu_options.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"

namespace ventris {

namespace {

struct Options {
  std::string input = "-";
  std::vector<std::string> references;
  data::BleuOptions bleu;
  bool json = false;
};

int run_bleu(const Options& options) {
  const std::vector<std::string> hypotheses = read_text(options.input);
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : options.references) references.push_back(read_text(path));
  const data::BleuScore score = data::corpus_bleu(hypotheses, references, options.bleu);
  write_output(options.json ? bleu_json(score, options.bleu, references.size())
                            : bleu_line(score, options.bleu, references.size()));
  return 0;
}

}  // namespace

Command bleu_command() {
  const auto options = std::make_shared<Options>();
  Command command;
  command.name = "bleu";
  command.summary = "scores translations against references with BLEU";
  command.synopsis = "--reference FILE... [--input FILE] [options]";
  command.description = {
      "Computes the BLEU of a file of translations as sacreBLEU does, to the last digit, and prints it with "
      "sacreBLEU's signature. Files are UTF-8, one sentence a line, plain or gzipped."};
  command.examples = {{"bleu --input test.out --reference test.de", "One reference:"},
                      {"bleu --input test.out --reference ref1.de ref2.de --lowercase --tokenize none",
                       "Two references, lowercased and tokenised text:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.texts("reference", "FILE...", options->references, "References, one file each.").required = true;
  table.text("input", "FILE", options->input, "The translations; - is the standard input.");
  table.toggle("json", options->json, "Prints one JSON object.");
  add_bleu_options(options->bleu, table);
  command.run = [options](Job&) { return run_bleu(*options); };
  return command;
}

}  // namespace ventris
