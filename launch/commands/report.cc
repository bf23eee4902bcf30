// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <thread>

#include "backend/device/error.h"
#include "data/io/atomic_file.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/pages/report_page.h"
#include "launch/pages/run_record.h"
#include "trainer/text.h"

namespace ventris {

namespace {

constexpr int kMaxSeconds = 24 * 60 * 60;

struct ReportCommandOptions {
  std::vector<std::string> folders;
  std::string output;
  int every = 0;  // seconds; 0: once
};

std::vector<RunRecord> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  return runs;
}

int run_report(const ReportCommandOptions& options, const Job& job) {
  check_can_create(options.output);
  const std::vector<RunRecord> runs = read_runs(options.folders);
  int64_t lines = 0;
  for (const RunRecord& run : runs) {
    if (const std::string warning = warning_of(run); !warning.empty()) say(job, "warning: " + warning);
    lines += run.metrics.lines;
  }
  data::write_file_atomically(options.output, report_page(runs, options.every));
  write_output(fmt::format("{}: {}, {} of metrics.jsonl\n", options.output, counted(std::ssize(runs), "run"),
                           counted(lines, "line")));
  while (options.every > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(options.every));
    data::write_file_atomically(options.output, report_page(read_runs(options.folders), options.every));
  }
  return 0;
}

}  // namespace

Command report_command() {
  const auto options = std::make_shared<ReportCommandOptions>();
  Command command;
  command.name = "report";
  command.summary = "draws the curves of training runs as a page for a web browser";
  command.synopsis = "RUN... --output FILE.html [--every N]";
  command.description = {
      "Writes a page with what metrics.jsonl of the run folders says: loss, perplexity, scores of validations, "
      "learning rate, norm of the gradients, tokens per second, skipped steps, the mix of corpora of a plan; "
      "with marks where a run was restarted, skipped steps or ended a stage; sentences as "
      "they were translated after validations (train --keep-valid-outputs), with the words that changed; and "
      "the options, those that differ between the runs first. Several runs are drawn over each other.",
      "The page is one file and needs neither the network nor other files. Curves can be enlarged and read out, "
      "also with the keyboard. Of a long run each curve has the lowest and the highest value of each of 1,500 "
      "columns.",
      "Only the run folders are read, also while a run trains. A last line that was not written to its end is "
      "normal; other lines that cannot be read are left out, with a warning."};
  command.examples = {{"report model --output report.html", "One run:"},
                      {"report model other-model --output report.html", "Two runs over each other:"},
                      {"report model --output report.html --every 60", "A run that trains, until Ctrl-C:"}};
  command.common = {{"output", "the page for a browser"}, {"every", "write it again while the runs go on"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("RUN", options->folders, "Run folders, of 'ventris train --model-dir'.").required = true;
  table.text("output", "FILE", options->output, "The page (HTML).").required = true;
  table.integer(
      "every", options->every, {.min = 0, .max = kMaxSeconds},
      "Seconds after which the page is written again, until the command is interrupted; an open page loads "
      "itself again as often. 0: it is written once.");
  command.run = [options](Job& job) { return run_report(*options, job); };
  return command;
}

}  // namespace ventris
