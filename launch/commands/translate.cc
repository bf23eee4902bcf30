// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "comm/communicator.h"
#include "data/error.h"
#include "data/io/json_text.h"
#include "data/text/text_reader.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/decoding_options.h"
#include "launch/output.h"
#include "trainer/inference/alignment.h"
#include "trainer/inference/translation.h"
#include "trainer/text.h"

namespace ventris {

namespace {

/// The report of `--statistics`: the time of translation, without reading and writing, and the work done in
/// it.
class DecodingStatistics {
 public:
  void begin() {
    begin_ = std::chrono::steady_clock::now();
    cpu_begin_ = std::clock();
  }
  void end() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    cpu_seconds_ += static_cast<double>(std::clock() - cpu_begin_) / CLOCKS_PER_SEC;
  }
  /// Adds one sentence, with the number of tokens in its best translation.
  void add_sentence(int64_t tokens) {
    ++sentences_;
    tokens_ += tokens;
  }
  /// Writes one JSON object and a line end to the standard error: "sentences", "tokens", "seconds",
  /// "cpu_seconds" (of all threads) and "peak_mib", the peak memory of this process.
  void print() const {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const nlohmann::json object = {{"sentences", sentences_},
                                   {"tokens", tokens_},
                                   {"seconds", seconds_},
                                   {"cpu_seconds", cpu_seconds_},
                                   {"peak_mib", static_cast<double>(usage.ru_maxrss) / 1024}};
    tell(data::utf8_json_text(object));
  }

 private:
  std::chrono::steady_clock::time_point begin_;
  std::clock_t cpu_begin_ = 0;
  double seconds_ = 0.0;
  double cpu_seconds_ = 0.0;
  int64_t sentences_ = 0;
  int64_t tokens_ = 0;
};

struct TranslateCommandOptions {
  DecodingOptions decoding;
  std::string prefix;
  bool prefix_column = false;
  int n_best = 0;
  int64_t block_lines = 10000;
  bool interactive = false;
  bool statistics = false;
  AlignmentForm alignment = AlignmentForm::kNone;
  AlignmentUnit alignment_unit = AlignmentUnit::kAuto;
  int alignment_layer = 0;
};

/// Maximum bytes of text of a block, for any --block-lines, so that long lines are bounded.
constexpr size_t kBlockBytes = size_t{16} << 20;

/// The standard input, and the file of prefixes, on one rank. Texts of a block end with LF, line by line.
class Input {
 public:
  explicit Input(const TranslateCommandOptions& options) : options_(options) {
    if (!options.prefix.empty()) prefixes_.emplace(options.prefix);
  }

  /// Reads at most `max` lines, or about kBlockBytes. Empty at the end of the input.
  void read(int64_t max) {
    lines.clear();
    prefixes.clear();
    std::string line;
    for (int64_t i = 0; i < max && lines.size() + prefixes.size() < kBlockBytes && text_.next(line); ++i) {
      check_line(line, "-", text_.line_number());
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
    if (std::string rest; lines.empty() && prefixes_ && prefixes_->next(rest)) {
      fail(ExitCode::kBadData, "{} has more lines than the standard input, which has {}", options_.prefix,
           text_.line_number());
    }
  }

  std::string lines;
  std::string prefixes;

 private:
  void read_prefix(std::string& prefix) {
    if (!prefixes_->next(prefix)) {
      fail(ExitCode::kBadData,
           "{} has {} lines, fewer than the standard input; expected one prefix for each line",
           options_.prefix, text_.line_number() - 1);
    }
    check_line(prefix, options_.prefix, text_.line_number());
  }

  const TranslateCommandOptions& options_;
  data::TextReader text_{"-"};
  std::optional<data::TextReader> prefixes_;
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

/// Throws the errors of ModelSet. A text given as an argument would be parsed as a model of --model.
ModelSet load_models(Context& context, const DecodingOptions& decoding) {
  try {
    return ModelSet(context, decoding.models, decoding.precision);
  } catch (const data::DataError& error) {
    if (decoding.models.size() < 2) throw;
    data::fail(
        error.kind(),
        "{}. Each word after --model is a model of an ensemble; the text comes from the standard input: "
        "ventris translate --model {} < TEXT",
        error.what(), shell_word(decoding.models.front()));
  }
}

int run_translate(TranslateCommandOptions& options, Job& job) {
  DecodingOptions& decoding = options.decoding;
  decoding.search.n_best = std::max(1, options.n_best);
  if (decoding.search.n_best > decoding.search.beam_size && !decoding.search.sample) {
    fail(ExitCode::kUsage, "--n-best {} needs a beam at least as large, but --beam-size is {}",
         options.n_best, decoding.search.beam_size);
  }
  const std::unique_ptr<Context> context = make_decoding_context(job, decoding);
  const ModelSet models = load_models(*context, decoding);
  check_same_models_on_all_ranks(job.communicator, models);
  Translator translator(*context, job.communicator, models, decoding.search);
  const bool aligns = options.alignment != AlignmentForm::kNone;
  std::optional<Aligner> aligner;
  if (aligns)
    aligner.emplace(*context, job.communicator, models, options.alignment_layer, options.alignment_unit);
  CutSentences cut(job, "translate", translator.longest_sentence());
  const bool one_by_one = options.interactive || ::isatty(STDIN_FILENO) == 1;
  const bool has_prefixes = options.prefix_column || !options.prefix.empty();
  std::optional<Input> input;
  if (job.is_rank_zero()) input.emplace(options);
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
      statistics.add_sentence(std::ssize(line.translations.front().tokens));
      cut.check(fmt::format("line {}", sentence), line.source_tokens);
      cut.check(fmt::format("the prefix of line {}", sentence), line.prefix_tokens);
    }
    if (job.is_rank_zero()) write_output(text);
  }
  cut.tell_total(sentence);
  if (options.statistics && job.is_rank_zero()) statistics.print();
  return 0;
}

}  // namespace

Command translate_command() {
  const auto options = std::make_shared<TranslateCommandOptions>();
  Command command;
  command.name = "translate";
  command.summary = "translates the standard input line by line";
  command.synopsis = "--model FILE|DIR [options] < source > translation";
  command.description = {
      "Reads UTF-8 text from the standard input, plain or gzipped, one sentence per line, "
      "and writes one line of translation for each to the standard output, in order. "
      "An empty line gives an empty line. A line that is too long for the model is cut, "
      "with a warning that names it; a line of more than 1 MiB ends the command with exit code 65. "
      "On a terminal and with --interactive every line is translated immediately; otherwise lines are read "
      "in blocks, and the translations of each block are written as soon as they are complete.",
      "Started with mpirun, the ranks share the sentences. "
      "The translation of a sentence depends neither on the other sentences nor on the number of ranks.",
      "With --n-best K there are K lines per sentence, best first: number of the sentence from 0, "
      "text and score, separated by ' ||| '.",
      "With --alignment, ' ||| ' and the word alignment follow the text (before the score, with --n-best): "
      "with hard, a pair SOURCE-TARGET for each word of the translation, with word numbers from 0, "
      "ordered by source word; with soft, for each word of the translation the weights of all words "
      "of the source, separated by commas. The weights are those of the decoder's attention to the source, "
      "averaged over the heads of one layer and over the models. Words are separated by white "
      "space (but see --alignment-unit): a source word has the sum of the weights of its tokens, "
      "a target word the mean over its tokens. The difference to 1 is the weight of the source's end mark.",
      "With --prefix FILE translation i begins with line i of the file; "
      "with --prefix-column it begins with what follows the first tab of the input line. "
      "The prefix is part of the output; scores count the tokens after it alone. Its last word may be "
      "continued. "
      "An empty prefix has no effect."};
  command.examples = {
      {"echo \"half past seven\" | ventris translate --model model",
       "One sentence, with the best checkpoint of a run:"},
      {"ventris translate --model weights.h5 --beam-size 1 < test.en > test.out",
       "A file, with greedy search:"},
      {"ventris translate --model weights.h5 --n-best 4 < test.en > test.nbest",
       "The four best of each sentence:"},
      {"ventris translate --model a.h5 b.h5 c.h5 < test.en > test.out", "Three models as an ensemble:"},
      {"ventris translate --model weights.h5 --sample --top-p 0.9 --seed 7 "
       "--n-best 5 < test.en > test.samples",
       "Five translations of each sentence, drawn at random:"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"},
                        {76, "the ranks disagree on the options or the model"}};
  command.common = {{"model", "weights, checkpoint or run folder"},
                    {"beam-size", "hypotheses kept; 1: greedy"},
                    {"length-penalty", "more prefers longer translations"},
                    {"n-best", "number of best translations to write"},
                    {"max-extra-length", "maximum of tokens beyond the source's"},
                    {"prefix", "beginnings of the translations"},
                    {"alignment", "writes the source words of each word"},
                    {"sample", "draws tokens instead of searching"},
                    {"temperature", "of sampling"},
                    {"seed", "of sampling"},
                    {"block-lines", "lines read before they are translated"},
                    {"interactive", "answers line by line"},
                    {"batch-rows", "tokens computed together; 0: by device"},
                    {"precision", "of products and activations"},
                    {"device", "where to compute"},
                    {"threads", "per rank; 0: its share of cores"}};
  command.many_ranks = true;
  command.alike_on_ranks = true;
  OptionTable& table = command.options;
  table.group("Model and output");
  add_models_option(options->decoding, table);
  table
      .text("prefix", "FILE", options->prefix,
            "Beginnings of the translations, one line for each input line.")
      .excludes = {"prefix-column"};
  table.toggle("prefix-column", options->prefix_column,
               "Each input line is a sentence, a tab, and the beginning of its translation.");
  table.integer("n-best", options->n_best, {.min = 0, .max = 256},
                "Writes the N best translations of each sentence, at most --beam-size, with their scores, "
                "or N samples with --sample; 0: only the best.");
  table.integer(
      "block-lines", options->block_lines, {.min = 1, .max = 10000000},
      "Number of lines to read before they are translated. Fewer give results sooner, more are faster.");
  table.toggle("interactive", options->interactive,
               "Translates and writes every line before the next is read.");
  table.toggle(
      "statistics", options->statistics,
      "At the end, writes a JSON object to the standard error: sentences, "
      "tokens of the vocabulary in their translations, seconds and CPU seconds spent on translating, "
      "and peak_mib, the peak memory of this process.");
  table.group("Alignment");
  table.choice<AlignmentForm>(
      "alignment", options->alignment,
      {{"none", AlignmentForm::kNone}, {"soft", AlignmentForm::kSoft}, {"hard", AlignmentForm::kHard}},
      "Writes the source words of each word of the translation.");
  table.choice<AlignmentUnit>(
      "alignment-unit", options->alignment_unit,
      {{"auto", AlignmentUnit::kAuto}, {"word", AlignmentUnit::kWord}, {"token", AlignmentUnit::kToken}},
      "Unit of the alignments: words, separated by white space, or tokens of the vocabulary, "
      "as in 'ventris score --per-word'. auto: tokens for a side of a line if most of its characters "
      "are of scripts without spaces between words (docs/scores.md), otherwise words.");
  table.integer("alignment-layer", options->alignment_layer, {.min = 0, .max = 1024},
                "Decoder layer whose attention gives the alignment, from 1. "
                "0: the one before the last if there are more than four, otherwise the last.");
  table.without_effect({"alignment-unit", "alignment-layer"}, "alignment", {"none"});
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_translate(*options, job); };
  return command;
}

}  // namespace ventris
