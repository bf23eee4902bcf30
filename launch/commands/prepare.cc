// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "comm/affinity.h"
#include "data/prepare.h"
#include "data/text/tokenizer_training.h"
#include "launch/command.h"
#include "launch/commands/prepare_report.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/exchange/import.h"
#include "trainer/json_text.h"
#include "trainer/text.h"

namespace ventris {

namespace {

/// What the command line says about the corpora of `prepare`: the values of the options of these names, one
/// after the other.
struct SetOptions {
  std::vector<std::string> train_sets;
  std::vector<std::string> train_set;  // NAME SRC TGT
  std::vector<std::string> train_tsv;  // NAME FILE
  std::vector<std::string> valid_sets;
  std::vector<std::string> valid_set;   // NAME SRC TGT
  std::vector<std::string> source_tag;  // NAME TAG, and so on
  std::vector<std::string> target_tag;
  std::vector<std::string> weights;
};

// SRC TGT SRC TGT ...
std::vector<data::PairFiles> pairs_of_files(const std::string& option,
                                            const std::vector<std::string>& files) {
  if (files.size() % 2 != 0) {
    fail(ExitCode::kUsage, "--{} needs pairs of files, source then target, but {} were given", option,
         files.size());
  }
  std::vector<data::PairFiles> pairs;
  for (size_t i = 0; i < files.size(); i += 2) pairs.push_back({files[i], files[i + 1]});
  return pairs;
}

/// Calls `take` with each group of as many values as `form` has words.
void for_each_group(const std::string& option, const std::string& form,
                    const std::vector<std::string>& values,
                    const std::function<void(const std::string* group)>& take) {
  const auto size = static_cast<size_t>(1 + std::ranges::count(form, ' '));
  if (values.size() % size != 0) {
    fail(ExitCode::kUsage, "--{} takes {} values each time, {}, but {} were given: {}", option, size, form,
         values.size(), values.back());
  }
  for (size_t i = 0; i < values.size(); i += size) take(&values[i]);
}

/// The corpora, in the order --train-sets (as the corpus "train"), --train-set, --train-tsv. Throws Error
/// kUsage for values that are no such groups, and for a name that no corpus has.
std::vector<data::TrainingCorpus> training_corpora(const SetOptions& options) {
  std::vector<data::TrainingCorpus> corpora;
  if (!options.train_sets.empty()) {
    corpora.push_back({.name = "train", .files = pairs_of_files("train-sets", options.train_sets)});
  }
  for_each_group("train-set", "NAME SRC TGT", options.train_set, [&](const std::string* group) {
    corpora.push_back({.name = group[0], .files = {{group[1], group[2]}}});
  });
  for_each_group("train-tsv", "NAME FILE", options.train_tsv, [&](const std::string* group) {
    corpora.push_back({.name = group[0], .files = {{group[1], ""}}});
  });
  const auto set = [&](const std::string& option, const std::string& form,
                       const std::vector<std::string>& values,
                       const std::function<void(data::TrainingCorpus&, const std::string& value)>& store) {
    std::set<std::string> given;
    for_each_group(option, form, values, [&](const std::string* group) {
      if (!given.insert(group[0]).second) {
        fail(ExitCode::kUsage, "--{} {} {}: {} has one already; give it once", option, group[0], group[1],
             group[0]);
      }
      const auto named = std::ranges::find(corpora, group[0], &data::TrainingCorpus::name);
      if (named == corpora.end()) {
        fail(ExitCode::kUsage,
             "--{} {} {}: there is no corpus of that name; give it with --train-set {} SRC TGT", option,
             group[0], group[1], group[0]);
      }
      store(*named, group[1]);
    });
  };
  set("source-tag", "NAME TAG", options.source_tag,
      [](data::TrainingCorpus& corpus, const std::string& tag) { corpus.source_tag = tag; });
  set("target-tag", "NAME TAG", options.target_tag,
      [](data::TrainingCorpus& corpus, const std::string& tag) { corpus.target_tag = tag; });
  set("weights", "NAME FILE", options.weights,
      [](data::TrainingCorpus& corpus, const std::string& path) { corpus.weights = path; });
  return corpora;
}

std::vector<data::NamedValidSet> named_valid_sets(const SetOptions& options) {
  std::vector<data::NamedValidSet> sets;
  for_each_group("valid-set", "NAME SRC TGT", options.valid_set, [&](const std::string* group) {
    sets.push_back({.name = group[0], .files = {group[1], group[2]}});
  });
  return sets;
}

struct PrepareCommandOptions {
  data::PrepareOptions prepare;
  SetOptions sets;
  std::string tokenizer_from;
  int target_vocab_size = 0;  // 0: one vocabulary
  std::string target_tokenizer_model;
  std::string user_symbols;
  std::string control_symbols;
  double log_seconds = 60.0;
  bool json = false;
};

/// The options of existing tokenizers, beside which those of training one are refused.
const std::vector<std::string> kGivenTokenizerOptions = {"tokenizer-model", "tokenizer-from",
                                                         "source-tokenizer-model", "target-tokenizer-model"};

/// A tokenizer of sources needs one of targets, and the other way round.
void check_both_given(bool source, bool target, const char* what) {
  if (source == target) return;
  fail(ExitCode::kUsage, "--{0}-{2} needs --{1}-{2}: each side has its own tokenizer, or they share one",
       source ? "source" : "target", source ? "target" : "source", what);
}

/// Which tokenizers there are, and the symbols of those to train; options of their training contradict given
/// ones.
void complete_tokenizer(PrepareCommandOptions& options) {
  data::PrepareOptions& prepare = options.prepare;
  check_both_given(prepare.source_vocab_size > 0, options.target_vocab_size > 0, "vocab-size");
  check_both_given(!prepare.source_tokenizer_model.empty(), !options.target_tokenizer_model.empty(),
                   "tokenizer-model");
  if (options.target_vocab_size > 0) prepare.tokenizer.vocab_size = options.target_vocab_size;
  if (!options.target_tokenizer_model.empty()) prepare.tokenizer_model = options.target_tokenizer_model;
  prepare.tokenizer.user_symbols = data::symbols_of(options.user_symbols);
  prepare.tokenizer.control_symbols = data::symbols_of(options.control_symbols);
  if (options.tokenizer_from.empty() && prepare.tokenizer_model.empty()) return;
  for (const auto& [used, option] : {std::pair(!options.user_symbols.empty(), "user-symbols"),
                                     {!options.control_symbols.empty(), "control-symbols"},
                                     {prepare.tokenizer.lowercase, "lowercase"},
                                     {prepare.tokenizer.identity, "no-normalization"},
                                     {prepare.tokenizer.byte_fallback, "byte-fallback"},
                                     {prepare.tokenizer.split_digits, "split-digits"},
                                     {prepare.tokenizer.no_dummy_prefix, "no-dummy-prefix"}}) {
    if (!used) continue;
    fail(ExitCode::kUsage,
         "--{} is for a tokenizer that is trained here, but {} is given; leave out one of them", option,
         options.tokenizer_from.empty() ? prepare.tokenizer_model : options.tokenizer_from);
  }
}

int run_prepare(PrepareCommandOptions& options, const Job& job) {
  data::PrepareOptions& prepare = options.prepare;
  prepare.corpora = training_corpora(options.sets);
  prepare.valid = pairs_of_files("valid-sets", options.sets.valid_sets);
  prepare.valid_sets = named_valid_sets(options.sets);
  check_is_no_file_of_a_run(prepare.output);
  complete_tokenizer(options);
  if (!options.tokenizer_from.empty()) {
    prepare.tokenizer_models = tokenizer_models_of(options.tokenizer_from);
    prepare.tokenizer_model = options.tokenizer_from;
  }
  prepare.threads = threads_per_rank(job.environment, prepare.threads);
  const auto start = std::chrono::steady_clock::now();
  const data::PrepareReport report = [&] {
    PrepareProgressLine line(job.is_rank_zero(), options.log_seconds);
    prepare.progress = [&line](const data::PrepareProgress& progress) { line.show(progress); };
    return data::prepare(prepare);
  }();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.json) {
    nlohmann::json result = prepare_json(report);
    result["output"] = prepare.output;
    result["seconds"] = seconds;
    write_output(json_text(result) + "\n");
    return 0;
  }
  std::string text = prepare_text(report);
  const std::string vocabulary =
      report.source_vocab_size == 0
          ? fmt::format("vocabulary of {}", grouped(report.vocab_size))
          : fmt::format("vocabularies of {} (sources) and {} (targets)", grouped(report.source_vocab_size),
                        grouped(report.vocab_size));
  text +=
      fmt::format("{}: {} tokens, digest {}, {:.1f} s\n", prepare.output, vocabulary, report.digest, seconds);
  write_output(text);
  // Open MPI starts no ranks as root without this option.
  say(job, fmt::format("Next: mpirun{} -np 2 ventris train --corpus {} --model-dir model --preset tiny",
                       ::geteuid() == 0 ? " --allow-run-as-root" : "", shell_word(prepare.output)));
  return 0;
}

void add_corpus_options(OptionTable& table, PrepareCommandOptions& options) {
  SetOptions& sets = options.sets;
  table.group("Text");
  table.texts("train-sets", "SRC TGT...", sets.train_sets,
              "Files to train on: source, target; several pairs may be given. They are one corpus, 'train'.");
  table.texts(
      "train-set", "NAME SRC TGT", sets.train_set,
      "A corpus of its own, with a name of a-z, 0-9, _ and - (but not valid, until, steps or stalled); may be "
      "given several times.");
  table.texts("train-tsv", "NAME FILE", sets.train_tsv,
              "The same in one file: source TAB target in each line.");
  table.texts("valid-sets", "SRC TGT...", sets.valid_sets,
              "Files to validate on. They are one set, 'valid'.");
  table.texts("valid-set", "NAME SRC TGT", sets.valid_set,
              "A validation set of its own, with a name of a-z, 0-9, _ and -; may be given several times. In "
              "'ventris train' the first set decides which checkpoint is the best.");
  table.group("Corpora, by name");
  table.texts(
      "source-tag", "NAME TAG", sets.source_tag,
      "A word put before each source line of the corpus, with a space. A tokenizer trained here has it as "
      "one token; a given one must.");
  table.texts("target-tag", "NAME TAG", sets.target_tag, "The same before each target line.");
  table.texts(
      "weights", "NAME FILE", sets.weights,
      "A number for each pair of the corpus, one in a line, at least 0: scales the loss of the pair.");
  table.group("Pairs that are left out");
}

void add_cleaning_options(OptionTable& table, PrepareCommandOptions& options) {
  data::PrepareOptions& prepare = options.prepare;
  const std::vector<std::pair<std::string, data::Likeness>> likeness = {
      {"none", data::Likeness::kNone}, {"exact", data::Likeness::kExact}, {"near", data::Likeness::kNear}};
  table.choice<data::Likeness>(
      "drop-duplicates", prepare.drop_duplicates, likeness,
      "Drops pairs that repeat an earlier kept pair of any corpus of this command. exact: equal text on both "
      "sides, ignoring tags. near: equal when case, punctuation, digits and spaces are ignored as well. Takes "
      "about 45 bytes of memory per pair.");
  table.choice<data::Likeness>(
      "drop-overlap", prepare.drop_overlap, likeness,
      "Leaves out training pairs with a side that is a line, of either side, of the validation set or of "
      "--overlap-files, in the same sense.");
  table.texts("overlap-files", "FILE...", prepare.held_out,
              "Files with the lines of test sets, for --drop-overlap.");
}

/// With one of the options of a side, those that give both sides one tokenizer, and those that give the side
/// another one, have no meaning.
void add_side_vocabulary(OptionTable& table, const std::string& side, int& variable) {
  Option& option = table.integer(
      side + "-vocab-size", variable, {.min = data::kMinVocabulary, .max = 1000000},
      fmt::format(
          "Tokens of a vocabulary for the {}s alone, to train on them; --{}-vocab-size is needed too. "
          "All other options of the tokenizer are for both, and --tokenizer-sentences for each.",
          side, side == "source" ? "target" : "source"));
  option.show = [&variable] { return variable == 0 ? std::string() : fmt::format("{}", variable); };
  option.excludes = {"vocab-size", "tokenizer-model", "tokenizer-from", "source-tokenizer-model",
                     "target-tokenizer-model"};
}

void add_side_model(OptionTable& table, const std::string& side, std::string& variable) {
  table
      .text(side + "-tokenizer-model", "FILE", variable,
            fmt::format("The same for the {}s alone; --{}-tokenizer-model is needed too.", side,
                        side == "source" ? "target" : "source"))
      .excludes = {"vocab-size", "tokenizer-model", "tokenizer-from"};
}

}  // namespace

Command prepare_command() {
  const auto options = std::make_shared<PrepareCommandOptions>();
  data::PrepareOptions& prepare = options->prepare;
  prepare.threads = 0;
  Command command;
  command.name = "prepare";
  command.summary = "converts parallel text to one corpus file, with its tokenizer";
  command.synopsis =
      "--train-sets SRC TGT [SRC TGT...]|--train-set NAME SRC TGT [--train-set ...] [--valid-sets SRC TGT] "
      "[--vocab-size N|--source-vocab-size N --target-vocab-size N|--tokenizer-model FILE|"
      "--source-tokenizer-model FILE --target-tokenizer-model FILE|--tokenizer-from MODEL] "
      "--output FILE [options]";
  command.description = {
      "Trains a SentencePiece model on both languages together, or one on each, or takes given ones. "
      "Checks and tokenizes the text on all cores, with memory that does not grow with the corpus. "
      "Writes one HDF5 file: the token ids of the training and validation pairs, the tokenizer or tokenizers, "
      "and a record of the inputs (docs/formats.md).",
      "Text is UTF-8, plain or compressed by gzip, xz or zstd, one sentence per line; "
      "line i of the target translates line i of the source. Pairs with an empty side, with a side of more "
      "than --max-length tokens, or with too different lengths are dropped from training and counted. "
      "A carriage return at the end of a line and a byte order mark at the beginning of a file are removed, "
      "and NUL bytes become spaces; carriage returns and NUL bytes are counted. "
      "Invalid UTF-8, different numbers of lines, and a damaged file are errors. "
      "Validation pairs are never dropped because of their length, only cut.",
      "Several corpora in one file, each with its name, may have tags and weights; "
      "'ventris train --mix' takes shares of them. A pair is counted under the first reason that holds: a side "
      "is empty, overlap, too long, ratio, duplicate. Tags and weights do not apply to validation pairs: "
      "what these need has to be in their text.",
      "If the command fails, it leaves nothing at --output."};
  command.examples = {
      {"prepare --train-sets train.en train.de --valid-sets valid.en valid.de "
       "--vocab-size 8000 --output corpus.h5",
       "A joint vocabulary of 8,000 tokens:"},
      {"prepare --train-sets a.en.gz a.de.gz b.en.gz b.de.gz --tokenizer-model spm.model --output corpus.h5",
       "Two pairs of gzipped files, with an existing tokenizer:"},
      {"prepare --train-set clean clean.en clean.de --train-set bt bt.en bt.de.zst --source-tag bt '<bt>' "
       "--drop-duplicates exact --drop-overlap near --valid-sets valid.en valid.de --output corpus.h5",
       "Clean and back-translated text, the latter with a tag, without repetitions and without validation lines:"},
      {"prepare --train-sets train.en train.ja --source-vocab-size 8000 --target-vocab-size 12000 --output corpus.h5",
       "A vocabulary for each language, as for distant scripts:"}};
  command.common = {{"train-sets", "files to train on"},
                    {"train-set", "a corpus with a name"},
                    {"valid-sets", "files to validate on"},
                    {"vocab-size", "tokens of both languages together"},
                    {"source-vocab-size", "tokens of the sources alone"},
                    {"target-vocab-size", "tokens of the targets alone"},
                    {"tokenizer", "kind of model to train"},
                    {"tokenizer-model", "existing model to use"},
                    {"tokenizer-from", "or that of a trained model"},
                    {"character-coverage", "share of the characters to cover"},
                    {"lowercase", "lowercases the text"},
                    {"max-length", "longest side, in tokens"},
                    {"output", "the corpus file"},
                    {"threads", "0: all cores"}};
  OptionTable& table = command.options;
  add_corpus_options(table, *options);
  table.integer("max-length", prepare.max_length, {.min = 1, .max = 65535},
                "Longest side of a pair in tokens of the vocabulary; longer training pairs are dropped.");
  table.number("max-length-ratio", prepare.max_length_ratio, {.min = 0, .max = 1e6},
               "Drops training pairs whose longer side has more than X times the tokens of the shorter, "
               "both plus one; at least 1, or 0 to keep all.");
  add_cleaning_options(table, *options);
  table.group("Tokenizer");
  table.integer("vocab-size", prepare.tokenizer.vocab_size, {.min = data::kMinVocabulary, .max = 1000000},
                "Tokens of the vocabulary to train, shared by both languages.");
  add_side_vocabulary(table, "source", prepare.source_vocab_size);
  add_side_vocabulary(table, "target", options->target_vocab_size);
  table
      .choice<data::TokenizerKind>(
          "tokenizer", prepare.tokenizer.kind,
          {{"bpe", data::TokenizerKind::kBpe},
           {"unigram", data::TokenizerKind::kUnigram},
           {"word", data::TokenizerKind::kWord},
           {"char", data::TokenizerKind::kChar}},
          "Kind of SentencePiece model to train. word: the most frequent words as they are between spaces, at most "
          "--vocab-size, any other is unknown. char: characters.")
      .excludes = kGivenTokenizerOptions;
  prepare.tokenizer.character_coverage = 0.0;
  Option& coverage = table.number(
      "character-coverage", prepare.tokenizer.character_coverage, {.min = 0.98, .max = 1},
      "Share of the characters of the text that the vocabulary covers. Default: 0.9995 if at least a twentieth of "
      "the characters is Chinese (Han), as in Japanese and Chinese, otherwise 1.");
  coverage.show = [] { return std::string(); };
  coverage.excludes = kGivenTokenizerOptions;
  table.text("user-symbols", "A,B...", options->user_symbols,
             "Each of these is one token wherever it occurs in the text, such as tags.");
  table.text("control-symbols", "A,B...", options->control_symbols,
             "Tokens that no text contains; their text is cut like any other.");
  table.toggle("byte-fallback", prepare.tokenizer.byte_fallback,
               "A character that is not in the vocabulary becomes the tokens of its UTF-8 bytes, 256 of "
               "--vocab-size, in place of the unknown token.");
  table.toggle("split-digits", prepare.tokenizer.split_digits, "Makes each digit a token.");
  table.toggle(
      "no-dummy-prefix", prepare.tokenizer.no_dummy_prefix,
      "Puts no space before the first word of a line: it may then be another token there than elsewhere.");
  table
      .integer("tokenizer-sentences", prepare.tokenizer.max_sentences, {.min = 1, .max = 100000000},
               "Sentences to train the tokenizer on, sampled evenly from the text.")
      .excludes = kGivenTokenizerOptions;
  table.toggle("lowercase", prepare.tokenizer.lowercase, "Lowercases the text inside the tokenizer.");
  table.toggle("no-normalization", prepare.tokenizer.identity,
               "Does not normalise the characters, for text that is already normalised and tokenised.");
  table
      .text("tokenizer-model", "FILE", prepare.tokenizer_model,
            "A SentencePiece model to use instead of training one; it must have an unknown and an end mark.")
      .excludes = {"vocab-size", "tokenizer-from"};
  add_side_model(table, "source", prepare.source_tokenizer_model);
  add_side_model(table, "target", options->target_tokenizer_model);
  table
      .text(
          "tokenizer-from", "FILE|DIR", options->tokenizer_from,
          "The tokenizer of a model or of another corpus file, or both of its tokenizers, in place of "
          "--tokenizer-model: a weights file, a checkpoint, a run folder, or what 'ventris import' reads. For "
          "'ventris train --init'.")
      .excludes = {"vocab-size"};
  table.group("Output and machine");
  table.toggle("keep-text", prepare.keep_text,
               "Keeps the text of the training pairs in the file, too: for 'ventris train --sample-source'.");
  table.text("output", "FILE", prepare.output, "The corpus file.").required = true;
  table.integer("threads", prepare.threads, {.min = 0, .max = 1024},
                "Cores to use; 0: all that are available to the process.");
  table.number("log-seconds", options->log_seconds, {.min = 0, .max = 1e7},
               "Seconds between lines of progress where messages go to no terminal; 0: none.");
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_prepare(*options, job); };
  return command;
}

}  // namespace ventris
