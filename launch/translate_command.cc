#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>

#include "comm/communicator.h"
#include "launch/command.h"
#include "launch/decoding_options.h"
#include "launch/decoding_statistics.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/translation.h"
#include "trainer/weights.h"

namespace ventris {

namespace {

struct Options {
  DecodingOptions decoding;
  int n_best = 0;
  int64_t block_lines = 10000;
  bool statistics = false;
};

// The next lines of the standard input, each ended by LF; empty at the end. Reads on one rank only.
std::string read_block(int64_t most, int64_t& line_number) {
  std::string block;
  std::string line;
  for (int64_t i = 0; i < most && std::getline(std::cin, line); ++i) {
    check_line(line, "-", ++line_number);
    block += line;
    block += '\n';
  }
  if (std::cin.bad()) fail(ExitCode::kIo, "cannot read the standard input");
  return block;
}

int run_translate(Options& options, Job& job) {
  DecodingOptions& decoding = options.decoding;
  decoding.search.n_best = std::max(1, options.n_best);
  if (decoding.search.n_best > decoding.search.beam_size) {
    fail(ExitCode::kUsage, "--n-best {} needs a beam at least as large, but --beam-size is {}",
         options.n_best, decoding.search.beam_size);
  }
  const std::unique_ptr<Context> context = make_context(job, decoding.device, decoding.threads);
  const std::unique_ptr<LoadedModel> model = load_model(*context, decoding.model, decoding.precision, ModelUse::kTranslation);
  std::ios::sync_with_stdio(false);
  const int64_t block_lines = ::isatty(STDIN_FILENO) ? 1 : options.block_lines;
  int64_t line_number = 0;
  int64_t sentence = 0;
  int64_t cut = 0;
  DecodingStatistics statistics;
  while (true) {
    std::string block;
    if (job.speaks()) block = read_block(block_lines, line_number);
    block = job.communicator.broadcast(block, 0);
    if (block.empty()) break;
    int64_t cut_here = 0;
    statistics.begin();
    const auto translations =
        translate_text(*context, job.communicator, *model, split_lines(block), decoding.search, &cut_here);
    statistics.end();
    cut += cut_here;
    if (!job.speaks()) continue;
    std::string text;
    for (const std::vector<Translation>& hypotheses : translations) {
      statistics.add_sentence(hypotheses.front().words);
      if (options.n_best == 0) {
        text += hypotheses.front().text + "\n";
      } else {
        for (const Translation& hypothesis : hypotheses) {
          text += fmt::format("{} ||| {} ||| {:.6f}\n", sentence, hypothesis.text, hypothesis.score);
        }
      }
      ++sentence;
    }
    write_output(text);
  }
  if (cut > 0) {
    say(job,
        fmt::format(
            "ventris translate: {} of {} sentences were cut after {} words, the longest that the model takes",
            grouped(cut), grouped(sentence), model->config.max_positions - 1));
  }
  if (options.statistics && job.speaks()) statistics.print();
  return 0;
}

}  // namespace

Command translate_command() {
  const auto options = std::make_shared<Options>();
  Command command;
  command.name = "translate";
  command.summary = "translates the standard input line by line";
  command.synopsis = "--model FILE|DIR [options] < source > translation";
  command.description = {
      "Reads UTF-8 text from the standard input, one sentence a line, and writes one line of translation for "
      "each to the standard output, in order. An empty line gives an empty line. On a terminal every line is "
      "translated at once; otherwise lines are read in blocks, and each block's translations are written as "
      "soon as they are there.",
      "Started with mpirun, the ranks share the sentences. The translation of a sentence depends neither on "
      "the other sentences nor on the number of ranks.",
      "With --n-best K there are K lines a sentence, best first: number of the sentence from 0, text and "
      "score, separated by ' ||| '."};
  command.examples = {
      {"echo \"half past seven\" | ventris translate --model model",
       "One sentence, by the best checkpoint of a run:"},
      {"ventris translate --model weights.h5 --beam-size 1 < test.en > test.out", "A file, greedily:"},
      {"ventris translate --model weights.h5 --n-best 4 < test.en > test.nbest",
       "The four best of each sentence:"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"}};
  command.many_ranks = true;
  OptionTable& table = command.options;
  table.group("Model and output");
  add_model_option(options->decoding, table);
  table.integer("n-best", options->n_best, {.least = 0, .most = 256},
                "Writes the N best translations of each sentence, at most --beam-size, with their scores; 0 "
                "writes the best alone.");
  table.integer("block-lines", options->block_lines, {.least = 1, .most = 10000000},
                "Lines read before they are translated. Fewer give results sooner, more are faster.");
  table.toggle("statistics", options->statistics,
             "At the end writes a JSON object to the standard error: sentences, words of the vocabulary in their "
             "translations, seconds spent on translating, and peak_mib, the peak memory of this process.");
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_translate(*options, job); };
  return command;
}

}  // namespace ventris
