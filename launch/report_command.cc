#include <memory>

#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/report_page.h"
#include "launch/run_record.h"
#include "trainer/files/model_files.h"
#include "trainer/text.h"

namespace ventris {

namespace {

struct Options {
  std::vector<std::string> folders;
  std::string output;
};

int run_report(const Options& options, const Job& job) {
  check_can_create(options.output);
  std::vector<RunRecord> runs;
  for (const std::string& folder : options.folders) {
    runs.push_back(read_run(folder));
    runs.back().samples = read_valid_samples(folder);
    if (const std::string warning = warning_of(runs.back()); !warning.empty())
      say(job, "warning: " + warning);
  }
  write_file_atomically(options.output, report_page(runs));
  int64_t lines = 0;
  for (const RunRecord& run : runs) lines += run.metrics.lines;
  write_output(fmt::format("{}: {}, {} of metrics.jsonl\n", options.output, counted(std::ssize(runs), "run"),
                           counted(lines, "line")));
  return 0;
}

}  // namespace

Command report_command() {
  const auto options = std::make_shared<Options>();
  Command command;
  command.name = "report";
  command.summary = "draws the curves of training runs as a page for a web browser";
  command.synopsis = "RUN... --output FILE.html";
  command.description = {
      "Writes a page with what metrics.jsonl of the run folders says: loss, perplexity, scores of validations, "
      "learning rate, norm of the gradients, tokens per second, skipped steps, the mix of corpora of a plan; "
      "with marks where a run was restarted, went back, skipped steps, was repaired or ended a stage; sentences as "
      "they were translated after validations ('train --keep-valid-outputs'), with the words that changed; and "
      "the options, those that differ between the runs first. Several runs are drawn over each other.",
      "The page is one file and needs neither the network nor other files. Curves can be enlarged and read out, "
      "also with the keyboard. Of a long run each curve has the lowest and the highest value of each of 1,500 "
      "columns.",
      "Only the run folders are read, also while a run trains. A last line that was not written to its end is "
      "normal; other lines that cannot be read are left out, with a warning. Of steps that were computed again "
      "after a restart the last values count."};
  command.examples = {{"report model --output report.html", "One run:"},
                      {"report model other-model --output report.html", "Two runs over each other:"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("RUN", options->folders, "Run folders, of 'ventris train --model-dir'.").required = true;
  table.text("output", "FILE", options->output, "The page (HTML).").required = true;
  command.run = [options](Job& job) { return run_report(*options, job); };
  return command;
}

}  // namespace ventris
