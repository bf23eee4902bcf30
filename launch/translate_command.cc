#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "data/text_reader.h"
#include "launch/command.h"
#include "launch/decoding_options.h"
#include "launch/decoding_statistics.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/alignment.h"
#include "trainer/translation.h"

namespace ventris {

namespace {

struct Options {
  DecodingOptions decoding;
  std::string prefix;
  bool prefix_column = false;
  int n_best = 0;
  int64_t block_lines = 10000;
  bool interactive = false;
  bool statistics = false;
  AlignmentForm alignment = AlignmentForm::kNone;
  int alignment_layer = 0;
};

/// The standard input, and the file of prefixes, on one rank. Texts of a block end with LF, line by line.
class Input {
 public:
  explicit Input(const Options& options) : options_(options) {
    if (!options.prefix.empty()) prefixes_.emplace(options.prefix);
  }

  /// Reads at most `most` lines. Nothing is read at the end of the input.
  void read(int64_t most) {
    lines.clear();
    prefixes.clear();
    std::string line;
    for (int64_t i = 0; i < most && std::getline(std::cin, line); ++i) {
      check_line(line, "-", ++line_number_);
      std::string prefix;
      if (options_.prefix_column) {
        const size_t tab = line.find('\t');
        if (tab != std::string::npos) prefix = line.substr(tab + 1);
        line.resize(std::min(tab, line.size()));
      } else if (prefixes_) {
        read_prefix(prefix);
      }
      lines += line + '\n';
      prefixes += prefix + '\n';
    }
    if (std::cin.bad()) fail(ExitCode::kIo, "cannot read the standard input");
    if (std::string rest; lines.empty() && prefixes_ && prefixes_->next(rest)) {
      fail(ExitCode::kBadData, "{} has more lines than the standard input, which has {}", options_.prefix,
           line_number_);
    }
  }

  std::string lines;
  std::string prefixes;

 private:
  void read_prefix(std::string& prefix) {
    if (!prefixes_->next(prefix)) {
      fail(ExitCode::kBadData,
           "{} has {} lines, fewer than the standard input; expected one prefix for each line",
           options_.prefix, line_number_ - 1);
    }
    check_line(prefix, options_.prefix, line_number_);
  }

  const Options& options_;
  std::optional<data::TextReader> prefixes_;
  int64_t line_number_ = 0;
};

/// `alignments`: of each translation, or null.
std::string format(const TranslatedLine& line, const std::vector<std::string>* alignments, int64_t number,
                   bool numbered) {
  std::string text;
  for (size_t k = 0; k < line.translations.size(); ++k) {
    if (!numbered && k > 0) break;
    const Translation& translation = line.translations[k];
    if (numbered) text += fmt::format("{} ||| ", number);
    text += translation.text;
    if (alignments != nullptr) text += " ||| " + (*alignments)[k];
    if (numbered) text += fmt::format(" ||| {:.6f}", translation.score);
    text += '\n';
  }
  return text;
}

int run_translate(Options& options, Job& job) {
  DecodingOptions& decoding = options.decoding;
  decoding.search.n_best = std::max(1, options.n_best);
  if (decoding.search.n_best > decoding.search.beam_size && !decoding.search.sample) {
    fail(ExitCode::kUsage, "--n-best {} needs a beam at least as large, but --beam-size is {}",
         options.n_best, decoding.search.beam_size);
  }
  const std::unique_ptr<Context> context = make_context(job, decoding.device, decoding.threads);
  const ModelSet models(*context, decoding.models, decoding.precision);
  Translator translator(*context, job.communicator, models, decoding.search);
  const bool aligns = options.alignment != AlignmentForm::kNone;
  std::optional<Aligner> aligner;
  if (aligns) aligner.emplace(*context, job.communicator, models, options.alignment_layer);
  CutSentences cut(job, "translate", translator.longest_sentence());
  std::ios::sync_with_stdio(false);
  const bool one_by_one = options.interactive || ::isatty(STDIN_FILENO) == 1;
  const bool has_prefixes = options.prefix_column || !options.prefix.empty();
  std::optional<Input> input;
  if (job.speaks()) input.emplace(options);
  DecodingStatistics statistics;
  int64_t sentence = 0;
  while (true) {
    if (input) input->read(one_by_one ? 1 : options.block_lines);
    const std::string block = job.communicator.broadcast(input ? input->lines : "", 0);
    if (block.empty()) break;
    std::vector<std::string> prefixes;
    if (has_prefixes) prefixes = split_lines(job.communicator.broadcast(input ? input->prefixes : "", 0));
    statistics.begin();
    const std::vector<TranslatedLine> translated =
        translator.translate(split_lines(block), prefixes, static_cast<uint64_t>(sentence));
    statistics.end();
    std::vector<std::vector<std::string>> alignments;
    if (aligns) alignments = aligner->align(translated, options.alignment);
    std::string text;
    for (size_t i = 0; i < translated.size(); ++i) {
      const TranslatedLine& line = translated[i];
      text += format(line, aligns ? &alignments[i] : nullptr, sentence, options.n_best > 0);
      ++sentence;
      statistics.add_sentence(std::ssize(line.translations.front().words));
      cut.check(fmt::format("line {}", sentence), line.source_words);
      cut.check(fmt::format("the prefix of line {}", sentence), line.prefix_words);
    }
    if (job.speaks()) write_output(text);
  }
  cut.tell_total(sentence);
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
      "each to the standard output, in order. An empty line gives an empty line; one that is longer than the "
      "model takes is cut, with a warning that names it. On a terminal and with --interactive every line is "
      "translated at once; otherwise lines are read in blocks, and each block's translations are written as "
      "soon as they are there.",
      "Started with mpirun, the ranks share the sentences. The translation of a sentence depends neither on "
      "the other sentences nor on the number of ranks.",
      "With --n-best K there are K lines a sentence, best first: number of the sentence from 0, text and "
      "score, separated by ' ||| '.",
      "With --alignment, ' ||| ' and the word alignment follow the text (before the score, with --n-best): "
      "with "
      "hard, a pair SOURCE-TARGET for each word of the translation, numbers of words from 0, ordered by "
      "source "
      "word; with soft, for each word of the translation the weights of all words of the source, separated "
      "by "
      "commas. The weights are those of the decoder's attention to the source, mean over the heads of one "
      "layer and over the models. Words are what stands between blanks: a source word has the sum of its "
      "pieces' weights, a target word the mean over its pieces. What weights lack to 1 is that of the "
      "source's end mark.",
      "With --prefix FILE line i of the file is what translation i begins with, and with --prefix-column "
      "what "
      "follows the first tab of an input line. The prefix is part of the output and of its score. The word "
      "that it ends with may go on. An empty prefix forces nothing."};
  command.examples = {
      {"echo \"half past seven\" | ventris translate --model model",
       "One sentence, by the best checkpoint of a run:"},
      {"ventris translate --model weights.h5 --beam-size 1 < test.en > test.out", "A file, greedily:"},
      {"ventris translate --model weights.h5 --n-best 4 < test.en > test.nbest",
       "The four best of each sentence:"},
      {"ventris translate --model a.h5 b.h5 c.h5 < test.en > test.out", "Three models as an ensemble:"},
      {"ventris translate --model weights.h5 --sample --top-p 0.9 --seed 7 --n-best 5 < test.en > "
       "test.samples",
       "Five translations of each sentence, drawn at random:"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"}};
  command.many_ranks = true;
  OptionTable& table = command.options;
  table.group("Model and output");
  add_models_option(options->decoding, table);
  table
      .text("prefix", "FILE", options->prefix,
            "What each translation begins with, one line for each input line.")
      .excludes = "prefix-column";
  table.toggle("prefix-column", options->prefix_column,
               "Input lines are a sentence, a tab, and what its translation begins with.");
  table.integer(
      "n-best", options->n_best, {.least = 0, .most = 256},
      "Writes the N best translations of each sentence, at most --beam-size, with their scores, or N "
      "that were drawn with --sample; 0 writes the best alone.");
  table.integer("block-lines", options->block_lines, {.least = 1, .most = 10000000},
                "Lines read before they are translated. Fewer give results sooner, more are faster.");
  table.toggle("interactive", options->interactive,
               "Translates and writes every line before the next is read.");
  table.toggle(
      "statistics", options->statistics,
      "At the end writes a JSON object to the standard error: sentences, words of the vocabulary in their "
      "translations, seconds and CPU seconds spent on translating, and peak_mib, the peak memory of this "
      "process.");
  table.group("Alignment");
  table.choice<AlignmentForm>(
      "alignment", options->alignment,
      {{"none", AlignmentForm::kNone}, {"soft", AlignmentForm::kSoft}, {"hard", AlignmentForm::kHard}},
      "Writes which words of the source each word of the translation comes from.");
  table.integer(
      "alignment-layer", options->alignment_layer, {.least = 0, .most = 1024},
      "The decoder layer whose attention aligns, from 1; 0 is the one before the last where there are "
      "more than four, else the last.");
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_translate(*options, job); };
  return command;
}

}  // namespace ventris
