// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <cmath>
#include <memory>

#include "comm/communicator.h"
#include "data/io/json_text.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/decoding_options.h"
#include "launch/output.h"
#include "trainer/inference/scoring.h"

namespace ventris {

namespace {

struct ScoreCommandOptions {
  DecodingOptions decoding;
  std::string source;
  std::string target;
  bool per_word = false;
  bool json = false;
};

/// The lines of a file, read on one rank and sent to all.
std::vector<std::string> read_on_all_ranks(const std::string& path, Job& job) {
  std::string packed;
  if (job.is_rank_zero()) {
    for (const std::string& line : read_text(path)) packed += line + "\n";
  }
  return split_lines(job.communicator.broadcast(packed, 0));
}

std::string json_line(const ScoredPair& pair, const std::vector<std::string>& tokens, bool per_word) {
  nlohmann::json result = {{"log_probability", pair.log_probability()}, {"length", pair.length()}};
  if (per_word) {
    result["tokens"] = tokens;
    result["log_probabilities"] = pair.log_probabilities;
  }
  return data::utf8_json_text(result) + "\n";
}

std::string text_line(const ScoredPair& pair, const std::vector<std::string>& tokens, bool per_word) {
  std::string text = fmt::format("{:.6f}\t{}", pair.log_probability(), pair.length());
  for (size_t i = 0; i < tokens.size() && per_word; ++i) {
    text += fmt::format("{}{}={:.6f}", i == 0 ? '\t' : ' ', tokens[i], pair.log_probabilities[i]);
  }
  return text + "\n";
}

int run_score(const ScoreCommandOptions& options, Job& job) {
  const DecodingOptions& decoding = options.decoding;
  const std::vector<std::string> sources = read_on_all_ranks(options.source, job);
  const std::vector<std::string> targets = read_on_all_ranks(options.target, job);
  if (sources.size() != targets.size()) {
    fail(ExitCode::kBadData,
         "{} has {} lines but {} has {}; line i of one must belong to line i of the other", options.source,
         sources.size(), options.target, targets.size());
  }
  const std::unique_ptr<Context> context = make_decoding_context(job, decoding);
  const ModelSet models(*context, decoding.models, decoding.precision);
  check_same_models_on_all_ranks(job.communicator, models);
  const std::vector<ScoredPair> scored =
      score_text(*context, job.communicator, models, sources, targets, decoding.search.batch_rows,
                 decoding.search.batch_sentences);
  if (!job.is_rank_zero()) return 0;

  CutSentences cut(job, "score", models.longest_sentence());
  const data::Tokenizer& tokenizer = models.tokenizers().target();
  std::string text;
  double total = 0.0;
  int64_t tokens = 0;
  for (size_t i = 0; i < scored.size(); ++i) {
    const ScoredPair& pair = scored[i];
    std::vector<std::string> pieces;
    if (options.per_word) {
      for (const int32_t token : pair.target) pieces.push_back(tokenizer.piece(token));
      pieces.push_back(tokenizer.piece(tokenizer.end_id()));
    }
    text +=
        options.json ? json_line(pair, pieces, options.per_word) : text_line(pair, pieces, options.per_word);
    total += pair.log_probability();
    tokens += static_cast<int64_t>(pair.length());
    cut.check(fmt::format("{}:{}", options.source, i + 1), pair.source_tokens);
    cut.check(fmt::format("{}:{}", options.target, i + 1), pair.target_tokens);
  }
  write_output(text);
  cut.tell_total(2 * std::ssize(scored));
  if (tokens > 0) {
    say(job, fmt::format(
                 "{}: {} pairs, {} tokens with end marks, log-probability {:.4f} a token, perplexity {:.4f}",
                 models.path(), grouped(std::ssize(scored)), grouped(tokens),
                 total / static_cast<double>(tokens), std::exp(-total / static_cast<double>(tokens))));
  }
  return 0;
}

}  // namespace

Command score_command() {
  const auto options = std::make_shared<ScoreCommandOptions>();
  Command command;
  command.name = "score";
  command.summary = "prints the probabilities of given translations";
  command.synopsis = "--model FILE|DIR --source FILE --target FILE [options]";
  command.description = {
      "Takes line i of the target as a translation of line i of the source and prints one line "
      "for each pair: the natural logarithm of the probability that the model gives to it, "
      "a tab, and its number of tokens, including the end mark. "
      "Their quotient is the mean log-probability of a token; translate's score is log p / ((5 + tokens) "
      "/ 6)^alpha, unless the search found the text as other tokens than those of the tokenizer.",
      "The perplexity over all tokens is printed to the standard error. Sentences "
      "that are longer than the model takes are cut, with a warning. Only rank 0 reads the texts. "
      "Results depend neither on --batch-rows nor on the number of ranks, which share the work."};
  command.examples = {
      {"score --model model --source test.en --target test.de", "With the best checkpoint of a run:"},
      {"ventris score --model weights.h5 --source test.en --target test.de --json --per-word > scores.jsonl",
       "With the log-probability of each token:"}};
  command.common = {{"model", "weights, checkpoint or run folder"},
                    {"source", "sentences, one per line"},
                    {"target", "their translations"},
                    {"per-word", "adds the log-probability of each token"},
                    {"json", "a JSON object for each pair"},
                    {"batch-rows", "tokens computed together; 0: by device"},
                    {"precision", "of products and activations"},
                    {"device", "where to compute"},
                    {"threads", "per rank; 0: its share of cores"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"},
                        {76, "the ranks disagree on the options or the model"}};
  command.many_ranks = true;
  command.alike_on_ranks = true;
  OptionTable& table = command.options;
  table.group("Input and output");
  add_models_option(options->decoding, table);
  table.text("source", "FILE", options->source, "Sentences, one per line, plain or gzipped.").required = true;
  table.text("target", "FILE", options->target, "Their translations, one per line, plain or gzipped.")
      .required = true;
  table.toggle("per-word", options->per_word,
               "Adds a tab and every token with its log-probability, TOKEN=NUMBER, separated by blanks.");
  table.toggle("json", options->json, "Prints one JSON object for each pair instead.");
  add_machine_options(options->decoding, table);
  command.run = [options](Job& job) { return run_score(*options, job); };
  return command;
}

}  // namespace ventris
