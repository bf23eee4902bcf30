// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "launch/command.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/run_record.h"
#include "trainer/files/json_text.h"
#include "trainer/text.h"

namespace ventris {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct DiffCommandOptions {
  std::vector<std::string> folders;
  bool json = false;
};

// Values that depend on the clock, and the means over the steps since the line before.
const std::set<std::string> kTimed = {"target_tokens_per_second", "source_tokens_per_second"};
const std::set<std::string> kMeans = {"loss", "nll", "perplexity"};

/// How the values of one key, or the digests, differ in the steps that both runs have.
struct Difference {
  std::string key;
  int64_t compared = 0;
  int64_t differing = 0;
  int64_t first = 0;  // step, if any differs, with the values there
  std::string a = {};
  std::string b = {};
  double by = 0.0;    // |a - b| there; of digests 0
  double most = 0.0;  // over all steps
};

struct RunComparison {
  std::map<std::string, std::vector<std::optional<std::string>>> options;
  std::vector<Difference> values;
  std::vector<std::string> notes;  // what only one of them has, and what could not be compared

  bool equal() const {
    return options.empty() && notes.empty() &&
           std::ranges::all_of(values, [](const Difference& value) { return value.differing == 0; });
  }
};

void add(Difference& difference, int64_t step, const std::string& a, const std::string& b, double by) {
  ++difference.compared;
  if (a == b) return;
  if (difference.differing++ == 0) {
    difference.first = step;
    difference.a = a;
    difference.b = b;
    difference.by = by;
  }
  difference.most = std::max(difference.most, by);
}

std::map<int64_t, double> by_step(const MetricsRecord& record, const std::string& key) {
  std::map<int64_t, double> values;
  for (const MetricsValue& value : record.of(key)) values[record.place_of(value).step] = value.value;
  return values;
}

/// Steps of which the means are over fewer steps than since the line before: the first after a restart.
std::set<int64_t> steps_after_restarts(const MetricsRecord& record) {
  std::set<int64_t> steps;
  const MetricsSeries& losses = record.of("loss");
  for (const MetricsMark& mark : record.marks) {
    if (mark.kind != MetricsMark::Kind::kRestart) continue;
    const auto next = std::ranges::find_if(
        losses, [&](const MetricsValue& value) { return record.place_of(value).step >= mark.place.step; });
    // A restart is marked at the line before it, or at the first one of the new start.
    for (auto at = next; at != losses.end() && at - next < 2; ++at) steps.insert(record.place_of(*at).step);
  }
  return steps;
}

Difference difference_of(const std::string& key, const MetricsRecord& a, const MetricsRecord& b,
                         const std::set<int64_t>& left_out) {
  Difference difference{.key = key};
  const std::map<int64_t, double> others = by_step(b, key);
  for (const auto& [step, value] : by_step(a, key)) {
    const auto other = others.find(step);
    if (other == others.end() || left_out.contains(step)) continue;
    add(difference, step, fmt::format("{}", value), fmt::format("{}", other->second),
        std::fabs(value - other->second));
  }
  return difference;
}

int64_t last_step(const MetricsRecord& record) {
  return record.places.empty() ? 0 : record.places.back().step;
}

RunComparison compare(const std::vector<RunRecord>& runs) {
  const MetricsRecord& a = runs[0].metrics;
  const MetricsRecord& b = runs[1].metrics;
  RunComparison result{.options = differing_options(runs), .values = {}, .notes = {}};
  std::set<int64_t> after_restarts = steps_after_restarts(a);
  after_restarts.merge(steps_after_restarts(b));
  const bool same_intervals = !result.options.contains("log_every");
  Difference digests{.key = "digest"};
  for (const auto& [step, digest] : a.digests)
    if (const auto other = b.digests.find(step); other != b.digests.end())
      add(digests, step, digest, other->second, 0.0);
  result.values.push_back(digests);
  for (const auto& [key, series] : a.series) {
    if (kTimed.contains(key) || !b.series.contains(key)) continue;
    const bool is_mean = kMeans.contains(key);
    if (is_mean && !same_intervals) continue;
    result.values.push_back(difference_of(key, a, b, is_mean ? after_restarts : std::set<int64_t>()));
  }
  std::erase_if(result.values, [](const Difference& value) { return value.compared == 0; });
  if (result.values.empty()) result.notes.emplace_back("they have no step in common");
  if (last_step(a) != last_step(b)) {
    result.notes.push_back(fmt::format("{} has values up to step {}, {} up to step {}", runs[0].folder,
                                       thousands(last_step(a)), runs[1].folder, thousands(last_step(b))));
  }
  return result;
}

std::string shown(const std::optional<std::string>& value) {
  return value.value_or("(none)");
}

std::string comparison_lines(const RunComparison& result) {
  std::string text;
  for (const auto& [name, values] : result.options)
    text += fmt::format("option {}: {} | {}\n", name, shown(values[0]), shown(values[1]));
  for (const std::string& note : result.notes) text += note + "\n";
  std::vector<Difference> differing = result.values;
  std::erase_if(differing, [](const Difference& value) { return value.differing == 0; });
  std::ranges::stable_sort(differing, {}, &Difference::first);
  if (!differing.empty())
    text += fmt::format("first difference at step {}\n", thousands(differing.front().first));
  for (const Difference& value : differing) {
    text += fmt::format("step {} {}: {} | {}", value.first, value.key, value.a, value.b);
    if (value.by > 0.0) text += fmt::format(", by {:.3g}", value.by);
    text += fmt::format("; differs in {} of {}", value.differing, counted(value.compared, "step"));
    if (value.most > value.by) text += fmt::format(", at most by {:.3g}", value.most);
    text += "\n";
  }
  for (const Difference& value : result.values)
    if (value.differing == 0)
      text += fmt::format("{}: equal in {}\n", value.key, counted(value.compared, "step"));
  return text;
}

OrderedJson comparison_json(const RunComparison& result) {
  OrderedJson json = {{"equal", result.equal()},
                      {"options", OrderedJson::object()},
                      {"notes", result.notes},
                      {"values", OrderedJson::object()}};
  for (const auto& [name, values] : result.options) {
    json["options"][name] = OrderedJson::array();
    for (const auto& value : values)
      json["options"][name].push_back(value ? OrderedJson(*value) : OrderedJson(nullptr));
  }
  for (const Difference& value : result.values) {
    OrderedJson& of_key = json["values"][value.key];
    of_key = {{"compared", value.compared}, {"differing", value.differing}};
    if (value.differing == 0) continue;
    of_key.update({{"first_step", value.first}, {"values", {value.a, value.b}}});
    if (value.key != "digest") of_key.update({{"by", value.by}, {"most", value.most}});
  }
  return json;
}

int run_diff(const DiffCommandOptions& options, const Job& job) {
  if (options.folders.size() != 2)
    fail(ExitCode::kUsage, "expected two run folders, got {}", options.folders.size());
  std::vector<RunRecord> runs;
  for (const std::string& folder : options.folders) {
    runs.push_back(read_run(folder));
    if (const std::string warning = warning_of(runs.back()); !warning.empty())
      say(job, "warning: " + warning);
  }
  const RunComparison result = compare(runs);
  write_output(options.json ? json_text(comparison_json(result)) + "\n" : comparison_lines(result));
  return result.equal() ? 0 : 1;
}

}  // namespace

Command diff_command() {
  const auto options = std::make_shared<DiffCommandOptions>();
  Command command;
  command.name = "diff";
  command.summary = "shows where two training runs differ: options, losses, digests";
  command.synopsis = "RUN_A RUN_B [--json]";
  command.description = {
      "Prints the options of two run folders that differ, then the first step at which a digest of the parameters "
      "or a value of metrics.jsonl differs, and by how much, and in how many steps. The value of the first run "
      "stands on the left.",
      "Steps that both have are compared; speeds are not. Losses, means over the steps since the line "
      "before, are not compared if --log-every differs, nor where a restart made an interval shorter. "
      "A run that ends at another step differs."};
  command.examples = {{"diff model model-on-8-ranks", "Whether two runs computed the same:"}};
  command.exit_codes = {{1, "the runs differ"}};
  OptionTable& table = command.options;
  table.group("Input and output");
  table.operands("RUN", options->folders, "Two run folders.").required = true;
  table.toggle("json", options->json, "Prints one JSON object.");
  command.run = [options](Job& job) { return run_diff(*options, job); };
  return command;
}

}  // namespace ventris
