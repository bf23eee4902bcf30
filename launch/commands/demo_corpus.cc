// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <memory>

#include "data/demo_corpus/demo_corpus.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {

namespace {

struct DemoCorpusCommandOptions {
  data::DemoCorpusOptions corpus;
  bool json = false;
};

int run_demo_corpus(const DemoCorpusCommandOptions& options, const Job& job) {
  const data::DemoCorpusOptions& corpus = options.corpus;
  data::write_demo_corpus(corpus);
  if (options.json) {
    const nlohmann::json result = {{"output_dir", corpus.output_dir},
                                   {"train_pairs", corpus.train_pairs},
                                   {"valid_pairs", corpus.valid_pairs},
                                   {"test_pairs", corpus.test_pairs},
                                   {"seed", corpus.seed}};
    write_output(json_text(result) + "\n");
  } else {
    write_output(fmt::format("{}: train.en and train.de with {} pairs, valid.* with {}, test.* with {}\n",
                             corpus.output_dir, grouped(corpus.train_pairs), grouped(corpus.valid_pairs),
                             grouped(corpus.test_pairs)));
  }
  const auto file = [&](const char* name) { return shell_word(corpus.output_dir + "/" + name); };
  say(job,
      fmt::format("Next: ventris prepare --train-sets {} {} --valid-sets {} {} --vocab-size 2000 --output {}",
                  file("train.en"), file("train.de"), file("valid.en"), file("valid.de"), file("corpus.h5")));
  return 0;
}

}  // namespace

Command demo_corpus_command() {
  const auto options = std::make_shared<DemoCorpusCommandOptions>();
  data::DemoCorpusOptions& corpus = options->corpus;
  Command command;
  command.name = "demo-corpus";
  command.summary = "writes a small real translation task, English to German";
  command.synopsis = "--output-dir DIR [--train-pairs N] [--valid-pairs N] [--test-pairs N] [--seed N]";
  command.description = {
      "Writes train.en, train.de, valid.en, valid.de, test.en and test.de: cardinals to 999,999,999, "
      "ordinals, years, dates, clock times, prices and short sentences around them, in words, "
      "with their German translations. The task requires reordering, compounding and agreement, "
      "has no licence restrictions, and is small enough for two cores.",
      "The text is a pure function of the options. No English line is in more than one set."};
  command.examples = {{"demo-corpus --output-dir demo", "The corpus of the quickstart:"},
                      {"demo-corpus --output-dir demo --train-pairs 5000 --seed 7", "A smaller corpus:"}};
  OptionTable& table = command.options;
  table.group("Output");
  table
      .text("output-dir", "DIR", corpus.output_dir,
            "Folder for the six files; existing files of these names are replaced. Created if missing.")
      .required = true;
  table.toggle("json", options->json, "Prints one JSON object.");
  table.group("Corpus");
  table.integer("train-pairs", corpus.train_pairs, {.min = 1, .max = 10000000},
                "Sentence pairs to train on.");
  table.integer("valid-pairs", corpus.valid_pairs, {.min = 1, .max = 1000000},
                "Sentence pairs to validate on.");
  table.integer("test-pairs", corpus.test_pairs, {.min = 1, .max = 1000000}, "Sentence pairs to test on.");
  table.integer("seed", corpus.seed, {}, "Selects the sentences.");
  command.run = [options](Job& job) { return run_demo_corpus(*options, job); };
  return command;
}

}  // namespace ventris
