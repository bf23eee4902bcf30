// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <thread>

#include "backend/error.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/report_page.h"
#include "launch/run_attention.h"
#include "launch/run_record.h"
#include "trainer/files/model_files.h"
#include "trainer/text.h"

namespace ventris {

namespace {

constexpr int kMaxSeconds = 24 * 60 * 60;

struct ReportCommandOptions {
  std::vector<std::string> folders;
  std::string output;
  int every = 0;  // seconds; 0: once
  AttentionRequest attention;
};

std::vector<RunRecord> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) {
    runs.push_back(read_run(folder));
    runs.back().samples = read_valid_samples(folder);
  }
  return runs;
}

ReportAttention read_attention(RunAttentionReader& reader, const std::vector<std::string>& folders) {
  if (!reader.is_asked()) return {};
  const AttentionRequest& request = reader.request();
  return {.sentences = request.sentences, .references = request.references, .runs = reader.read(folders)};
}

DecodingOptions default_decoding() {
  DecodingOptions decoding;
  decoding.device = "cpu";
  return decoding;
}

void check(const ReportCommandOptions& options) {
  if (options.attention.sentences.empty() && !options.attention.references.empty())
    fail(ExitCode::kUsage, "--reference needs --sentence, of which it is the translation");
  const AttentionRequest none{.sentences = {}, .references = {}, .decoding = default_decoding()};
  const AttentionRequest& asked = options.attention;
  if (asked.sentences.empty() && (asked.checkpoints != none.checkpoints || asked.decoding != none.decoding))
    fail(ExitCode::kUsage,
         "--checkpoints and the options of the search and of the machine need --sentence: without it no "
         "checkpoint is read");
}

void write_report(const ReportCommandOptions& options, const std::vector<RunRecord>& runs,
                  const ReportAttention& attention) {
  write_file_atomically(options.output, report_page(runs, attention, options.every));
}

int run_report(const ReportCommandOptions& options, const Job& job) {
  check(options);
  RunAttentionReader reader(job, options.attention);
  check_can_create(options.output);
  const std::vector<RunRecord> runs = read_runs(options.folders);
  for (const RunRecord& run : runs)
    if (const std::string warning = warning_of(run); !warning.empty()) say(job, "warning: " + warning);
  const ReportAttention attention = read_attention(reader, options.folders);
  for (size_t i = 0; i < attention.runs.size(); ++i)
    for (const std::string& warning : attention.runs[i].warnings(options.folders[i]))
      say(job, "warning: " + warning);
  write_report(options, runs, attention);
  int64_t lines = 0;
  for (const RunRecord& run : runs) lines += run.metrics.lines;
  write_output(fmt::format("{}: {}, {} of metrics.jsonl\n", options.output, counted(std::ssize(runs), "run"),
                           counted(lines, "line")));
  while (options.every > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(options.every));
    write_report(options, read_runs(options.folders), read_attention(reader, options.folders));
  }
  return 0;
}

}  // namespace

Command report_command() {
  const auto options = std::make_shared<ReportCommandOptions>();
  Command command;
  command.name = "report";
  command.summary = "draws the curves of training runs as a page for a web browser";
  command.synopsis = "RUN... --output FILE.html [--every N] [--sentence TEXT] [options]";
  command.description = {
      "Writes a page with what metrics.jsonl of the run folders says: loss, perplexity, scores of validations, "
      "learning rate, norm of the gradients, tokens per second, skipped steps, the mix of corpora of a plan; "
      "with marks where a run was restarted, skipped steps or ended a stage; sentences as "
      "they were translated after validations, with the words that changed; and "
      "the options, those that differ between the runs first. Several runs are drawn over each other.",
      "The page is one file and needs neither the network nor other files. Curves can be enlarged and read out, "
      "also with the keyboard. Of a long run each curve has the lowest and the highest value of each of 1,500 "
      "columns.",
      "With --sentence the runs' checkpoints translate a sentence of yours, and the page shows the attention of every "
      "layer and head, as 'ventris attention' computes it; one can step through the checkpoints. This loads each of "
      "them; the options of the group Search are for it, and --device is cpu unless given, as a GPU may be busy "
      "with the run.",
      "Only the run folders are read, also while a run trains. A last line that was not written to its end is "
      "normal; other lines that cannot be read are left out, with a warning."};
  command.examples = {
      {"report model --output report.html", "One run:"},
      {"report model other-model --output report.html", "Two runs over each other:"},
      {"report model --output report.html --every 60", "A run that trains, until Ctrl-C:"},
      {"report model --output report.html --sentence \"A man rides a bicycle.\" --reference \"Ein "
       "Mann f\u00e4hrt Fahrrad.\"",
       "With the attention of its checkpoints:"}};
  command.common = {{"output", "the page for a browser"},
                    {"every", "write it again while the runs go on"},
                    {"sentence", "show its translation and attention"},
                    {"reference", "and those with this translation"},
                    {"checkpoints", "how many of a run"}};
  command.exit_codes = {{69, "the device is not available"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("RUN", options->folders, "Run folders, of 'ventris train --model-dir'.").required = true;
  table.text("output", "FILE", options->output, "The page (HTML).").required = true;
  table.integer(
      "every", options->every, {.min = 0, .max = kMaxSeconds},
      "Seconds after which the page is written again, until the command is interrupted; an open page loads "
      "itself again as often. 0: it is written once.");
  table.group("Attention");
  AttentionRequest& attention = options->attention;
  table.repeated_text(
      "sentence", "TEXT", attention.sentences, kMaxReportSentences,
      "Shows how checkpoints of the runs translate it, and their attention. A sentence that a model cannot take is a "
      "warning.");
  table.repeated_text(
      "reference", "TEXT", attention.references, kMaxReportSentences,
      "The translation of the sentence of the same place in the order: shown beside those of the "
      "checkpoints, and a target by which their attention can be compared.");
  table.integer(
      "checkpoints", attention.checkpoints, {.min = 1, .max = kMaxReportCheckpoints},
      "Checkpoints of a run that are shown, of those in its folder, spread evenly; among them the best, or the "
      "newest where none was validated. With 1 only this one.");
  attention.decoding = default_decoding();
  add_search_options(attention.decoding, table);
  command.run = [options](Job& job) { return run_report(*options, job); };
  return command;
}

}  // namespace ventris
