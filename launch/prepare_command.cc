#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

#include "backend/error.h"
#include "comm/affinity.h"
#include "data/prepare.h"
#include "data/text/tokenizer_training.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "trainer/exchange/import.h"
#include "trainer/files/json_text.h"
#include "trainer/files/run_folder.h"
#include "trainer/text.h"

namespace ventris {

namespace {

/// SentencePiece ends the process by exit(-1) if the text has nothing that its trainer can use, such as only
/// blanks. During the lifetime of this object, such an end has a message and a documented code.
class LibraryExits {
 public:
  LibraryExits() {
    static const int registered = std::atexit(end);
    static_cast<void>(registered);
    expected = true;
  }
  ~LibraryExits() { expected = false; }
  LibraryExits(const LibraryExits&) = delete;
  LibraryExits& operator=(const LibraryExits&) = delete;

 private:
  static void end() {
    if (!expected) return;
    tell(
        "ventris prepare: error: SentencePiece cannot train a tokenizer on this text, "
        "for the reason above. Check that the text has characters other than blanks, "
        "and that --tokenizer-sentences is large enough. Nothing was written");
    ::_exit(static_cast<int>(ExitCode::kBadData));
  }
  static inline std::atomic<bool> expected = false;
};

struct Options {
  data::PrepareOptions prepare;
  std::vector<std::string> train_sets;
  std::vector<std::string> valid_sets;
  std::string tokenizer_from;
  std::string user_symbols;
  std::string control_symbols;
  bool json = false;
};

// SRC TGT SRC TGT ...: the files of each side.
void split_sides(const std::string& option, const std::vector<std::string>& files,
                 std::vector<std::string>& source, std::vector<std::string>& target) {
  if (files.size() % 2 != 0) {
    fail(ExitCode::kUsage, "--{} needs pairs of files, source then target, but {} were given", option,
         files.size());
  }
  source.clear();
  target.clear();
  for (size_t i = 0; i < files.size(); i += 2) {
    source.push_back(files[i]);
    target.push_back(files[i + 1]);
  }
}

/// The symbols of the tokenizer to train; options of its training contradict a given one.
void complete_tokenizer(Options& options) {
  data::PrepareOptions& prepare = options.prepare;
  prepare.tokenizer.user_symbols = data::symbols_of(options.user_symbols);
  prepare.tokenizer.control_symbols = data::symbols_of(options.control_symbols);
  if (options.tokenizer_from.empty() && prepare.tokenizer_model.empty()) return;
  for (const auto& [used, option] : {std::pair(!options.user_symbols.empty(), "user-symbols"),
                                     {!options.control_symbols.empty(), "control-symbols"},
                                     {prepare.tokenizer.byte_fallback, "byte-fallback"},
                                     {prepare.tokenizer.split_digits, "split-digits"},
                                     {prepare.tokenizer.no_dummy_prefix, "no-dummy-prefix"}}) {
    if (!used) continue;
    fail(ExitCode::kUsage,
         "--{} is for a tokenizer that is trained here, but {} is given; leave out one of them", option,
         options.tokenizer_from.empty() ? prepare.tokenizer_model : options.tokenizer_from);
  }
}

void tell_missing_begin(const data::PrepareOptions& prepare, const Job& job) {
  const data::Tokenizer tokenizer =
      prepare.tokenizer_bytes.empty() ? data::Tokenizer::from_file_of_model_or_words(prepare.tokenizer_model)
                                      : data::Tokenizer(prepare.tokenizer_bytes, prepare.tokenizer_model);
  if (tokenizer.has_begin()) return;
  say(job,
      fmt::format("{} has no begin mark: the decoder of a model that is trained with it begins without an "
                  "embedding, from zeros (train --begin-embedding)",
                  prepare.tokenizer_model));
}

bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error);
}

void warn_of_repeated_files(const std::string& option, const std::vector<std::string>& source,
                            const std::vector<std::string>& target, const Job& job) {
  for (size_t i = 0; i < source.size(); ++i) {
    if (is_same_file(source[i], target[i])) {
      say(job, fmt::format("Warning: --{} has {} as source and as target: the model would learn to copy",
                           option, source[i]));
    }
    for (size_t j = 0; j < i; ++j) {
      if (!is_same_file(source[i], source[j]) || !is_same_file(target[i], target[j])) continue;
      say(job, fmt::format("Warning: --{} has the pair {} {} twice: its sentences count twice", option,
                           source[i], target[i]));
      break;
    }
  }
}

nlohmann::json to_json(const data::CharacterCounts& counts) {
  nlohmann::json list = nlohmann::json::object();
  for (const auto& [character, count] : counts)
    list[fmt::format("U+{:04X}", static_cast<uint32_t>(character))] = count;
  return list;
}

nlohmann::json to_json(const data::PrepareCounts& counts) {
  return {{"read", counts.read},
          {"kept", counts.kept},
          {"empty", counts.empty},
          {"too_long", counts.too_long},
          {"bad_ratio", counts.bad_ratio},
          {"repaired_crlf", counts.repaired_crlf},
          {"repaired_nul", counts.repaired_nul},
          {"source_words", counts.source_tokens},
          {"target_words", counts.target_tokens},
          {"unknown_words", counts.unknown_tokens},
          {"unknown_characters", to_json(counts.unknown_characters)}};
}

std::string describe(const std::string& name, const data::PrepareCounts& counts, bool cut) {
  std::string text =
      fmt::format("{}: {} pairs read, {} kept ({} source tokens, {} target tokens, {} unknown)\n", name,
                  grouped(counts.read), grouped(counts.kept), grouped(counts.source_tokens),
                  grouped(counts.target_tokens), grouped(counts.unknown_tokens));
  const auto line = [&text](int64_t count, const char* what) {
    if (count > 0) text += fmt::format("  {} {}\n", grouped(count), what);
  };
  line(counts.empty, "dropped: a side is empty");
  line(counts.too_long, cut ? "cut: longer than --max-length" : "dropped: longer than --max-length");
  line(counts.bad_ratio, "dropped: the lengths differ by more than --max-length-ratio");
  line(counts.repaired_crlf, "repaired: carriage return removed from the line end");
  line(counts.repaired_nul, "repaired: NUL bytes replaced by spaces");
  if (!counts.unknown_characters.empty())
    text += fmt::format("  unknown to the vocabulary: {}\n", data::listing(counts.unknown_characters));
  return text;
}

int run_prepare(Options& options, const Job& job) {
  data::PrepareOptions& prepare = options.prepare;
  split_sides("train-sets", options.train_sets, prepare.train_source, prepare.train_target);
  split_sides("valid-sets", options.valid_sets, prepare.valid_source, prepare.valid_target);
  warn_of_repeated_files("train-sets", prepare.train_source, prepare.train_target, job);
  warn_of_repeated_files("valid-sets", prepare.valid_source, prepare.valid_target, job);
  for (const std::string& output : {prepare.output, prepare.dropped_report})
    check_is_no_file_of_a_run(output);
  complete_tokenizer(options);
  if (!options.tokenizer_from.empty()) {
    if (!prepare.tokenizer_model.empty())
      fail(ExitCode::kUsage, "--tokenizer-model and --tokenizer-from exclude each other; give one of them");
    prepare.tokenizer_bytes = tokenizer_model_of(options.tokenizer_from);
    prepare.tokenizer_model = options.tokenizer_from;
  }
  prepare.threads = threads_per_rank(job.environment, prepare.threads);
  const auto start = std::chrono::steady_clock::now();
  const data::PrepareReport report = [&] {
    const LibraryExits exits;
    return data::prepare(prepare);
  }();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!prepare.tokenizer_model.empty()) tell_missing_begin(prepare, job);
  if (options.json) {
    const nlohmann::json result = {{"output", prepare.output},        {"digest", report.digest},
                                   {"vocab_size", report.vocab_size}, {"seconds", seconds},
                                   {"train", to_json(report.train)},  {"valid", to_json(report.valid)}};
    write_output(json_text(result) + "\n");
    return 0;
  }
  std::string text = describe("train", report.train, false);
  if (report.valid.read > 0) text += describe("valid", report.valid, true);
  text += fmt::format("{}: vocabulary of {} tokens, digest {}, {:.1f} s\n", prepare.output,
                      grouped(report.vocab_size), report.digest, seconds);
  write_output(text);
  // Open MPI starts no ranks as root without this option.
  say(job, fmt::format("Next: mpirun{} -np 2 ventris train --corpus {} --model-dir model --preset tiny",
                       ::geteuid() == 0 ? " --allow-run-as-root" : "", shell_word(prepare.output)));
  return 0;
}

}  // namespace

Command prepare_command() {
  const auto options = std::make_shared<Options>();
  data::PrepareOptions& prepare = options->prepare;
  prepare.threads = 0;
  Command command;
  command.name = "prepare";
  command.summary = "converts parallel text to one corpus file, with its tokenizer";
  command.synopsis =
      "--train-sets SRC TGT [SRC TGT...] [--valid-sets SRC TGT] [--vocab-size N | "
      "--tokenizer-model FILE|--tokenizer-from MODEL] --output FILE [options]";
  command.description = {
      "Trains a SentencePiece model on both languages together, or takes a given one. "
      "Checks and tokenizes the text on all cores, with memory that does not grow with the corpus. "
      "Writes one HDF5 file: the token ids of the training and validation pairs, the tokenizer, "
      "and a record of the inputs (docs/formats.md).",
      "Text is UTF-8, plain or gzipped, one sentence per line; "
      "line i of the target translates line i of the source. Pairs with an empty side, with a side of more "
      "than --max-length tokens, or with too different lengths are dropped from training and counted. "
      "A carriage return at the end of a line is removed and NUL bytes become spaces; both are counted. "
      "Invalid UTF-8, different numbers of lines, and a damaged file are errors. "
      "Validation pairs are never dropped because of their length, only cut.",
      "If the command fails, it leaves nothing at --output."};
  command.examples = {
      {"prepare --train-sets train.en train.de --valid-sets valid.en valid.de "
       "--vocab-size 8000 --output corpus.h5",
       "A joint vocabulary of 8,000 tokens:"},
      {"prepare --train-sets a.en.gz a.de.gz b.en.gz b.de.gz --tokenizer-model spm.model --output corpus.h5",
       "Two pairs of gzipped files, with an existing tokenizer:"}};
  command.common = {{"train-sets", "files to train on"},
                    {"valid-sets", "files to validate on"},
                    {"vocab-size", "tokens of both languages together"},
                    {"tokenizer", "kind of model to train"},
                    {"tokenizer-model", "existing model to use"},
                    {"tokenizer-from", "or that of a trained model"},
                    {"character-coverage", "share of the characters to cover"},
                    {"lowercase", "lowercases the text"},
                    {"max-length", "longest side, in tokens"},
                    {"output", "the corpus file"},
                    {"threads", "0: all cores"}};
  OptionTable& table = command.options;
  table.group("Text");
  table
      .texts("train-sets", "SRC TGT...", options->train_sets,
             "Files to train on: source, target; several pairs may be given.")
      .required = true;
  table.texts("valid-sets", "SRC TGT...", options->valid_sets, "Files to validate on.");
  table.integer("max-length", prepare.max_length, {.min = 1, .max = 65535},
                "Longest side of a pair in tokens of the vocabulary; longer training pairs are dropped.");
  table.number("max-length-ratio", prepare.max_length_ratio, {.min = 0, .max = 1e6},
               "Drops training pairs whose longer side has more than X times the tokens of the shorter, "
               "both plus one; at least 1, or 0 to keep all.");
  table.group("Tokenizer");
  table.integer("vocab-size", prepare.tokenizer.vocab_size, {.min = data::kMinVocabulary, .max = 1000000},
                "Tokens of the vocabulary to train, shared by both languages.");
  table.choice<data::TokenizerKind>(
      "tokenizer", prepare.tokenizer.kind,
      {{"bpe", data::TokenizerKind::kBpe},
       {"unigram", data::TokenizerKind::kUnigram},
       {"word", data::TokenizerKind::kWord},
       {"char", data::TokenizerKind::kChar}},
      "Kind of SentencePiece model to train. word: the most frequent words as they are between spaces, at most "
      "--vocab-size, any other is unknown. char: characters.");
  prepare.tokenizer.character_coverage = 0.0;
  Option& coverage = table.number(
      "character-coverage", prepare.tokenizer.character_coverage, {.min = 0.98, .max = 1},
      "Share of the characters of the text that the vocabulary covers. Default: 0.9995 if at least a twentieth of "
      "the characters is Chinese (Han), as in Japanese and Chinese, otherwise 1.");
  coverage.show = [] { return std::string(); };
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
  table.integer("tokenizer-sentences", prepare.tokenizer.max_sentences, {.min = 1, .max = 100000000},
                "Sentences to train the tokenizer on, sampled evenly from the text.");
  table.toggle("lowercase", prepare.tokenizer.lowercase, "Lowercases the text inside the tokenizer.");
  table.toggle("no-normalization", prepare.tokenizer.identity,
               "Does not normalise the characters, for text that is already normalised and tokenised.");
  table
      .text(
          "tokenizer-model", "FILE", prepare.tokenizer_model,
          "A SentencePiece model to use instead of training one, with an unknown and an end mark; or a list of "
          "words, one a line, each alone or with a count, as fairseq's dict.txt.")
      .excludes = "vocab-size";
  table
      .text(
          "tokenizer-from", "FILE|DIR", options->tokenizer_from,
          "The tokenizer of a model or of another corpus file, in place of --tokenizer-model: a weights file, "
          "a checkpoint, a run folder, or what 'ventris import' reads. For 'ventris train --init'.")
      .excludes = "vocab-size";
  table.group("Output and machine");
  table.text("output", "FILE", prepare.output, "The corpus file.").required = true;
  table.text("dropped-report", "FILE", prepare.dropped_report,
             "Writes a line for each dropped or repaired pair, with file, line and reason.");
  table.integer("threads", prepare.threads, {.min = 0, .max = 1024},
                "Cores to use; 0: all that are available to the process.");
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_prepare(*options, job); };
  return command;
}

}  // namespace ventris
