// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <optional>

#include "comm/communicator.h"
#include "data/io/atomic_file.h"
#include "data/io/json_text.h"
#include "data/scores/unspaced_text.h"
#include "launch/command.h"
#include "launch/commands/score_report.h"
#include "launch/job.h"
#include "launch/options/bleu_options.h"
#include "launch/options/decoding_options.h"
#include "launch/output.h"
#include "trainer/inference/translation.h"
#include "trainer/json_text.h"

namespace ventris {

namespace {

constexpr int kScoreDigits = 2;

struct EvaluateCommandOptions {
  DecodingOptions decoding;
  std::string source;
  std::vector<std::string> references;
  std::string output;
  data::BleuOptions bleu;
  std::optional<data::BleuTokenizer> tokenizer;  // none: the one that fits the references
  data::ProtocolOptions protocol;
  bool json = false;
};

// Reads the texts on one rank, before the translation, and sends the source to all.
std::vector<std::string> read_texts(const EvaluateCommandOptions& options, Job& job,
                                    std::vector<std::vector<std::string>>& references) {
  std::string packed;
  if (job.is_rank_zero()) {
    if (!options.output.empty()) check_can_create(options.output);
    const std::vector<std::string> source = read_text(options.source);
    for (const std::string& path : options.references) {
      references.push_back(read_scored_text(path));
      if (references.back().size() != source.size()) {
        fail(ExitCode::kBadData,
             "{} has {} lines but {} has {}; line i of one must belong to line i of the other",
             options.source, source.size(), path, references.back().size());
      }
    }
    for (const std::string& line : source) packed += line + "\n";
  }
  packed = job.communicator.broadcast(packed, 0);
  std::vector<std::string> source = split_lines(packed);
  if (source.empty())
    fail(ExitCode::kBadData, "{} has no lines; there is nothing to evaluate", options.source);
  return source;
}

std::string search_label(const BeamSearchOptions& search) {
  return search.sample ? fmt::format("sampled, seed {}", search.sampling.seed)
                       : fmt::format("beam {}", search.beam_size);
}

/// The score; with the paper's protocol its label also records the settings of the translation.
ScoreReport score_of(std::vector<std::string> hypotheses, std::vector<std::vector<std::string>> references,
                     const data::BleuOptions& bleu, const std::optional<data::MosesLanguage>& paper,
                     const BeamSearchOptions& search, const ModelSet& models) {
  if (paper) {
    data::to_paper_words(hypotheses, *paper);
    for (std::vector<std::string>& reference : references) data::to_paper_words(reference, *paper);
  }
  const data::Metric metric(data::MetricKind::kBleu, {.bleu = bleu, .chrf = {}});
  ScoreReport report = metric_report(metric, metric.count(hypotheses, references), references.size());
  if (paper) {
    report.name = data::kPaperBleuName;
    report.signature = signed_by_us(fmt::format(
        "{}|averaged:{}|{}|lenpen:{}", data::paper_signature(*paper, static_cast<int>(references.size())),
        fmt::join(models.averaged_checkpoints(), ","),
        search.sample ? "sampled" : fmt::format("beam:{}", search.beam_size), search.length_penalty));
  }
  return report;
}

void choose_tokenizer(data::BleuOptions& bleu, const std::vector<std::string>& reference, const Job& job) {
  const data::FittingTokenizer fitting = data::fitting_tokenizer(reference);
  if (fitting.reason.empty()) return;
  bleu.tokenizer = fitting.tokenizer;
  say(job, fmt::format("BLEU is computed with the tokenizer {}: {} (--tokenize)", name_of(bleu.tokenizer),
                       fitting.reason));
}

int run_evaluate(const EvaluateCommandOptions& options, Job& job) {
  const DecodingOptions& decoding = options.decoding;
  data::BleuOptions bleu = options.bleu;
  bleu.tokenizer = options.tokenizer.value_or(bleu.tokenizer);
  const std::optional<data::MosesLanguage> paper = data::paper_language(options.protocol, bleu);
  std::vector<std::vector<std::string>> references;
  const std::vector<std::string> source = read_texts(options, job, references);
  if (!options.tokenizer && !paper && job.is_rank_zero()) choose_tokenizer(bleu, references.front(), job);
  const std::unique_ptr<Context> context = make_decoding_context(job, decoding);
  say_if_built_without_cuda(job, decoding.device);
  const ModelSet models(*context, decoding.models, decoding.precision);
  check_same_models_on_all_ranks(job.communicator, models);
  Translator translator(*context, job.communicator, models, decoding.search);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<TranslatedLine> translated = translator.translate(source);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!job.is_rank_zero()) return 0;

  std::vector<std::string> hypotheses;
  std::string text;
  CutSentences cut(job, "evaluate", translator.longest_sentence());
  for (const TranslatedLine& line : translated) {
    hypotheses.push_back(line.translations.front().text);
    text += hypotheses.back() + "\n";
    cut.check(fmt::format("{}:{}", options.source, hypotheses.size()), line.source_tokens);
  }
  cut.tell_total(std::ssize(source));
  if (!options.output.empty()) data::write_file_atomically(options.output, text);
  if (!paper && data::words_are_phrases(references.front(), bleu))
    say(job, data::warning_of_phrases("the references", bleu));
  const ScoreReport report = score_of(hypotheses, references, bleu, paper, decoding.search, models);
  say(job, fmt::format("{}: {} sentences in {:.1f} s, {}, length penalty {}", models.path(),
                       grouped(std::ssize(source)), seconds, search_label(decoding.search),
                       decoding.search.length_penalty));
  if (options.json) {
    nlohmann::json result = data::read_json(score_json(report, {}));
    result["model"] = models.path();
    result["sentences"] = source.size();
    result["seconds"] = seconds;
    result["beam_size"] = decoding.search.beam_size;
    result["length_penalty"] = std::stod(fmt::format("{}", decoding.search.length_penalty));
    write_output(json_text(result) + "\n");
  } else {
    write_output(score_line(report, kScoreDigits) + "\n");
  }
  return 0;
}

}  // namespace

Command evaluate_command() {
  const auto options = std::make_shared<EvaluateCommandOptions>();
  Command command;
  command.name = "evaluate";
  command.summary = "translates a test set and scores it with BLEU";
  command.synopsis = "--model FILE|DIR --source FILE --reference FILE... [options]";
  command.description = {
      "Translates the source text with beam search on all ranks, compares it with the references, "
      "and prints BLEU with sacreBLEU's signature. Only rank 0 reads the texts. "
      "The translations and the score do not depend on the number of ranks."};
  command.examples = {
      {"evaluate --model model --source test.en --reference test.de", "The best checkpoint of a run:"},
      {"mpirun -np 2 ventris evaluate --model weights.h5 --source test.en --reference test.de "
       "--beam-size 5 --output test.out --json",
       "On two ranks, also writing the translations:"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"},
                        {76, "the ranks disagree on the options or the model"}};
  command.common = {{"model", "weights, checkpoint or run folder"},
                    {"source", "text to translate"},
                    {"reference", "its reference translations"},
                    {"output", "file for the translations"},
                    {"json", "prints one JSON object"},
                    {"tokenize", "tokenizer of BLEU"},
                    {"lowercase", "ignores case"},
                    {"beam-size", "hypotheses kept; 1: greedy"},
                    {"length-penalty", "more prefers longer translations"},
                    {"batch-rows", "tokens computed together; 0: by device"},
                    {"device", "where to compute"},
                    {"threads", "per rank; 0: its share of cores"}};
  command.many_ranks = true;
  command.alike_on_ranks = true;
  OptionTable& table = command.options;
  table.group("Input and output");
  add_models_option(options->decoding, table);
  table.text("source", "FILE", options->source, "Text to translate, one sentence per line, plain or gzipped.")
      .required = true;
  table.texts("reference", "FILE...", options->references, "Reference translations, one file each.")
      .required = true;
  table.text("output", "FILE", options->output, "Writes the translations to this file.");
  table.toggle("json", options->json, "Prints one JSON object.");
  table.group("Protocol");
  add_protocol_options(options->protocol, table);
  add_bleu_options(options->bleu, table, &options->tokenizer);
  add_search_options(options->decoding, table);
  command.run = [options](Job& job) { return run_evaluate(*options, job); };
  return command;
}

}  // namespace ventris
