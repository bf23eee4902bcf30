// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "data/error.h"
#include "data/scores/score_text.h"
#include "data/scores/significance.h"
#include "data/scores/unspaced_text.h"
#include "data/text/unicode.h"
#include "launch/command.h"
#include "launch/commands/score_report.h"
#include "launch/job.h"
#include "launch/options/bleu_options.h"
#include "launch/output.h"

namespace ventris {

namespace {

constexpr int kTextWidth = 2;

struct BleuCommandOptions {
  std::vector<std::string> input = {"-"};
  std::vector<std::string> references;
  std::vector<std::string> operands;  // also references, in the form of sacreBLEU's command
  std::vector<std::string> metrics = {"bleu"};
  data::MetricOptions metric;
  data::ProtocolOptions protocol;
  std::optional<data::MosesLanguage> paper;
  int width = -1;  // default: 2 for text, all digits for JSON
  bool sentence_level = false;
  bool score_only = false;
  bool json = false;
  bool confidence = false;
  bool paired_bootstrap = false;
  bool paired_randomization = false;
  int64_t resamples = 1000;
  int64_t paired_resamples = 1000;
  int64_t trials = 10000;
  uint64_t seed = 12345;

  bool paired() const { return paired_bootstrap || paired_randomization; }
  int text_width() const { return width < 0 ? kTextWidth : width; }
  std::optional<int> json_width() const { return width < 0 ? std::nullopt : std::optional(width); }
};

using Lines = std::vector<std::string>;

/// Lines without trailing white space, which sacreBLEU's command also removes.
Lines read_stripped(const std::string& path) {
  Lines lines = read_scored_text(path);
  for (std::string& line : lines) line = data::unicode::encode(data::rstrip(data::unicode::decode(line)));
  return lines;
}

/// The requested metrics, in sacreBLEU's order.
std::vector<data::Metric> metrics_of(const BleuCommandOptions& options) {
  data::MetricOptions given = options.metric;
  given.bleu.effective_order = given.bleu.effective_order || options.sentence_level;
  const std::pair<const char*, data::MetricKind> known[] = {{"bleu", data::MetricKind::kBleu},
                                                            {"chrf", data::MetricKind::kChrf}};
  for (const std::string& name : options.metrics) {
    if (name == "chrf++" || name == "chrF++")
      fail(ExitCode::kUsage, "--metrics: chrF++ is 'chrf' with --chrf-word-order 2");
    if (std::none_of(std::begin(known), std::end(known), [&](const auto& k) { return name == k.first; }))
      fail(ExitCode::kUsage, "--metrics: '{}' is not bleu or chrf", name);
  }
  std::vector<data::Metric> metrics;
  for (const auto& [name, kind] : known) {
    if (std::find(options.metrics.begin(), options.metrics.end(), name) != options.metrics.end())
      metrics.emplace_back(kind, given);
  }
  return metrics;
}

void check_combination(const BleuCommandOptions& options, size_t metrics) {
  if (options.paired_bootstrap && options.paired_randomization)
    fail(ExitCode::kUsage, "--paired-bs and --paired-ar exclude each other");
  if (options.sentence_level && (metrics > 1 || options.input.size() > 1))
    fail(ExitCode::kUsage, "--sentence-level scores one file with one metric, not {} files with {}",
         options.input.size(), metrics);
  if (options.sentence_level && (options.confidence || options.paired()))
    fail(ExitCode::kUsage, "--sentence-level cannot be combined with a test of significance");
  if (options.paired() && options.input.size() < 2)
    fail(ExitCode::kUsage,
         "a paired test compares two files or more, baseline first: --input BASELINE SYSTEM...");
  if (options.confidence && options.input.size() > 1)
    fail(ExitCode::kUsage, "--confidence is for one file; compare several with --paired-bs or --paired-ar");
  for (auto path = options.input.begin(); path != options.input.end(); ++path) {
    if (std::find(options.input.begin(), path, *path) != path)
      fail(ExitCode::kUsage, "--input: {} is given twice", *path);
  }
}

void warn_of_tokenized_text(const BleuCommandOptions& options, const Lines& lines, Job& job) {
  constexpr int64_t kSuspicious = 100;
  if (options.metric.bleu.tokenizer == data::BleuTokenizer::kNone) return;
  const auto ends =
      std::count_if(lines.begin(), lines.end(), [](const auto& l) { return l.ends_with(" ."); });
  if (ends < kSuspicious) return;
  say(job, fmt::format("{} lines end in a separate period. BLEU expects text that is not tokenised; "
                       "--tokenize none scores tokenised text unchanged",
                       grouped(ends)));
}

void warn_of_phrases(const BleuCommandOptions& options, const std::vector<Lines>& references, Job& job) {
  const data::BleuOptions& bleu = options.metric.bleu;
  if (options.paper || !data::words_are_phrases(references.front(), bleu)) return;
  say(job, data::warning_of_phrases("the references", bleu));
}

/// Name and signature of a metric; with the paper's protocol its own instead of BLEU's.
std::string label_of(const BleuCommandOptions& options, const data::Metric& metric) {
  return options.paper ? data::kPaperBleuName : metric.name();
}
std::string signature_of(const BleuCommandOptions& options, const data::Metric& metric,
                         const std::string& trials = {}) {
  const auto references = static_cast<int>(options.references.size());
  return signed_by_us(options.paper ? data::paper_signature(*options.paper, references, trials)
                                    : metric.signature(references, trials));
}

ScoreReport report_of(const BleuCommandOptions& options, const data::Metric& metric,
                      const data::Statistics& statistics, const std::string& trials = {}) {
  ScoreReport report = metric_report(metric, statistics, options.references.size());
  report.name = label_of(options, metric);
  report.signature = signature_of(options, metric, trials);
  return report;
}

std::string sentence_scores(const BleuCommandOptions& options, const data::Metric& metric,
                            const data::Statistics& statistics) {
  std::string text;
  for (size_t i = 0; i < statistics.sentences(); ++i) {
    const auto row = statistics.row(i);
    data::Statistics sentence{statistics.columns, {row.begin(), row.end()}};
    const ScoreReport report = report_of(options, metric, sentence);
    text += options.json         ? score_json(report, options.json_width())
            : options.score_only ? score_text(report, options.text_width())
                                 : score_line(report, options.text_width());
    text += "\n";
  }
  return text;
}

std::string system_scores(const BleuCommandOptions& options, const std::vector<data::Metric>& metrics,
                          const Lines& system, const std::vector<Lines>& references) {
  std::vector<ScoreReport> reports;
  for (const data::Metric& metric : metrics) {
    const data::Statistics statistics = metric.count(system, references);
    const std::string trials =
        options.confidence ? fmt::format("bs:{}|seed:{}", options.resamples, options.seed) : "";
    reports.push_back(report_of(options, metric, statistics, trials));
    if (options.confidence)
      reports.back().estimate = data::bootstrap_estimate(metric, statistics, options.resamples, options.seed);
  }
  if (options.json) {
    std::string objects;
    for (const ScoreReport& report : reports)
      objects += (objects.empty() ? "" : ",") + score_json(report, options.json_width());
    return (reports.size() == 1 ? objects : "[" + objects + "]") + "\n";
  }
  if (!options.score_only) return aligned_lines(reports, options.text_width());
  std::string text;
  for (const ScoreReport& report : reports) text += score_text(report, options.text_width()) + "\n";
  return text;
}

std::string compared_scores(const BleuCommandOptions& options, const std::vector<data::Metric>& metrics,
                            const std::vector<Lines>& systems, const std::vector<Lines>& references) {
  Comparison comparison;
  comparison.systems = options.input;
  std::string trials;
  if (options.paired()) {
    comparison.systems.front() = "Baseline: " + options.input.front();
    const int64_t count = options.paired_bootstrap ? options.paired_resamples : options.trials;
    trials = fmt::format("{}:{}|seed:{}", options.paired_bootstrap ? "bs" : "ar", count, options.seed);
    comparison.test = options.paired_bootstrap
                          ? fmt::format("bootstrap resampling test with {} resamples", count)
                          : fmt::format("approximate randomization test with {} trials", count);
  }
  for (const data::Metric& metric : metrics) {
    std::vector<data::Statistics> statistics;
    for (const Lines& system : systems) statistics.push_back(metric.count(system, references));
    Comparison::Column column{label_of(options, metric), signature_of(options, metric, trials), {}};
    if (options.paired_bootstrap) {
      column.results = data::paired_bootstrap(metric, statistics, options.paired_resamples, options.seed);
    } else if (options.paired_randomization) {
      column.results = data::paired_randomization(metric, statistics, options.trials, options.seed);
    } else {
      for (const data::Statistics& of_system : statistics)
        column.results.push_back({metric.score(of_system.sums()), {}, {}});
    }
    comparison.columns.push_back(std::move(column));
  }
  return options.json ? comparison_json(comparison) + "\n"
                      : comparison_text(comparison, options.text_width());
}

void take_operands(BleuCommandOptions& options) {
  if (!options.operands.empty() && !options.references.empty()) {
    fail(ExitCode::kUsage, "references are given twice: {} after --reference, and '{}' without it",
         options.references.front(), options.operands.front());
  }
  if (!options.operands.empty()) options.references.swap(options.operands);
  if (options.references.empty()) {
    fail(ExitCode::kUsage,
         "a reference is required: ventris bleu REFERENCE... --input TRANSLATION...; "
         "see 'ventris bleu --help'");
  }
}

int run_bleu(const BleuCommandOptions& given, Job& job) {
  BleuCommandOptions options = given;
  take_operands(options);
  options.paper = data::paper_language(options.protocol, options.metric.bleu);
  const std::vector<data::Metric> metrics = metrics_of(options);
  check_combination(options, metrics.size());
  if (options.paper && (metrics.size() > 1 || metrics[0].kind() != data::MetricKind::kBleu))
    fail(ExitCode::kUsage, "--protocol paper is only for BLEU");
  std::vector<Lines> systems;
  for (const std::string& path : options.input) systems.push_back(read_stripped(path));
  std::vector<Lines> references;
  for (const std::string& path : options.references) references.push_back(read_stripped(path));
  for (size_t s = 0; s < systems.size(); ++s) {
    if (systems[s].empty())
      data::fail(data::ErrorKind::kBadData, "{} has no lines to score",
                 options.input[s] == "-" ? "the standard input (--input names a file)" : options.input[s]);
    data::check_references(references, systems[s].size());
    if (metrics.front().kind() == data::MetricKind::kBleu) warn_of_tokenized_text(options, systems[s], job);
  }
  if (metrics.front().kind() == data::MetricKind::kBleu) warn_of_phrases(options, references, job);
  if (options.paper) {
    for (Lines& lines : systems) data::to_paper_words(lines, *options.paper);
    for (Lines& lines : references) data::to_paper_words(lines, *options.paper);
  }
  if (options.sentence_level) {
    write_output(sentence_scores(options, metrics[0], metrics[0].count(systems[0], references)));
  } else if (systems.size() == 1) {
    write_output(system_scores(options, metrics, systems[0], references));
  } else {
    write_output(compared_scores(options, metrics, systems, references));
  }
  return 0;
}

void add_significance_options(BleuCommandOptions& options, OptionTable& table) {
  constexpr int64_t kMaxTrials = 10'000'000;
  table.group("Significance");
  table.toggle("confidence", options.confidence,
               "Prints mean and 95% confidence interval of the score, by bootstrap resampling.");
  table.integer("confidence-n", options.resamples, {.min = 2, .max = kMaxTrials},
                "Number of resamples for --confidence.");
  table.toggle("paired-bs", options.paired_bootstrap,
               "Compares every file of --input with the first by paired bootstrap resampling.");
  table.integer("paired-bs-n", options.paired_resamples, {.min = 2, .max = kMaxTrials},
                "Number of resamples for --paired-bs.");
  table.toggle("paired-ar", options.paired_randomization,
               "Compares every file of --input with the first by approximate randomization.");
  table.integer("paired-ar-n", options.trials, {.min = 1, .max = kMaxTrials},
                "Number of trials for --paired-ar.");
  table.integer("seed", options.seed, {},
                "Seed of the random numbers; with the default they are the same as sacreBLEU's.");
}

}  // namespace

Command bleu_command() {
  const auto options = std::make_shared<BleuCommandOptions>();
  Command command;
  command.name = "bleu";
  command.summary = "scores translations against references with BLEU and chrF";
  command.synopsis = "REFERENCE... [--input FILE...] [options]";
  command.description = {
      "Computes BLEU, chrF and chrF++ of files of translations as sacreBLEU does, to the last digit, "
      "and prints them with sacreBLEU's signatures, which end with the version of this program. "
      "Files are UTF-8, one sentence per line, plain or gzipped.",
      "Several files are compared in a table, with p-values if a paired test is requested. "
      "Resampling draws the same random numbers as sacreBLEU, so intervals and p-values are the same."};
  command.examples = {
      {"bleu test.de --input test.out", "One reference:"},
      {"bleu test.de -i test.out -m bleu chrf -b -w 4", "With the options of sacreBLEU's command:"},
      {"bleu --input test.out --reference ref1.de ref2.de --lowercase --tokenize none",
       "Two references, lowercased and tokenised text:"},
      {"bleu --input test.out --reference test.de --metrics bleu chrf --chrf-word-order 2 --confidence",
       "BLEU and chrF++ with confidence intervals:"},
      {"bleu --input baseline.out better.out --reference test.de --paired-bs",
       "Is the difference significant?"},
      {"bleu --input test.out --reference test.de --protocol paper --language de",
       "Tokenised BLEU, to compare with the tables of papers of that time:"}};
  command.common = {{"reference", "references, one file each"},
                    {"input", "translations, one file per system"},
                    {"metrics", "bleu, chrf: one or both"},
                    {"tokenize", "tokenizer of BLEU"},
                    {"lowercase", "ignores case"},
                    {"smooth", "for n-grams without a match"},
                    {"chrf-word-order", "2 gives chrF++"},
                    {"sentence-level", "a score for each line"},
                    {"confidence", "intervals by bootstrap"},
                    {"paired-bs", "test of significance by bootstrap"},
                    {"paired-ar", "or by approximate randomization"},
                    {"score-only", "prints scores without signatures"},
                    {"json", "prints JSON"},
                    {"width", "digits after the decimal point"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("REFERENCE...", options->operands, "References, one file each.");
  table.texts("reference", "FILE...", options->references, "The references, given as an option.");
  Option& input = table.texts("input", "FILE...", options->input,
                              "The translations, one file per system; - is the standard input. "
                              "With a paired test the baseline is first.");
  input.aliases = {"-i"};
  input.show = [] { return std::string("-"); };
  Option& metrics = table.texts("metrics", "NAME...", options->metrics, "bleu, chrf: one or both.");
  metrics.aliases = {"-m"};
  metrics.show = [] { return std::string("bleu"); };
  table.toggle("sentence-level", options->sentence_level, "Prints a score for each line, of one metric.")
      .aliases = {"-sl"};
  table.toggle("json", options->json, "Prints JSON: an object, or an array for several metrics or files.");
  Option& format = table.choice<bool>("format", options->json, {{"text", false}, {"json", true}},
                                      "The same under sacreBLEU's name (there the default is json).");
  format.aliases = {"-f"};
  format.excludes = {"json"};
  table.toggle("score-only", options->score_only, "Prints scores without signatures.").aliases = {"-b"};
  Option& width = table.integer("width", options->width, {.min = 0, .max = 15},
                                "Digits after the decimal point. Default: 2 in text, all in JSON.");
  width.aliases = {"-w"};
  width.show = [] { return std::string(); };
  table.group("Protocol");
  add_protocol_options(options->protocol, table);
  add_bleu_options(options->metric.bleu, table);
  add_chrf_options(options->metric.chrf, table);
  add_significance_options(*options, table);
  command.run = [options](Job& job) { return run_bleu(*options, job); };
  return command;
}

}  // namespace ventris
