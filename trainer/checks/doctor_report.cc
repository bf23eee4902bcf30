// SPDX-License-Identifier: Apache-2.0
#include "trainer/checks/doctor_report.h"

#include <fmt/core.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "data/files/json_text.h"
#include "trainer/files/json_text.h"
#include "trainer/text.h"

namespace ventris {

std::string doctor_page(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<8} {:<14} {}\n", name_of(finding.severity), finding.check, finding.text);
    if (!finding.advice.empty()) text += fmt::format("{:<23} -> {}\n", "", finding.advice);
  }
  const bool fit = findings.empty() || findings.front().severity != Severity::kProblem;
  return text + fmt::format("{}: {}\n", counted(std::ssize(facts.ranks), "rank"),
                            fit ? "fit to train" : "not fit to train");
}

std::string doctor_json(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"severity", name_of(finding.severity)},
                    {"check", finding.check},
                    {"finding", finding.text},
                    {"advice", finding.advice}});
  }
  nlohmann::json ranks = nlohmann::json::array();
  for (const RankFacts& rank : facts.ranks) ranks.push_back(data::read_json(to_json(rank)));
  const nlohmann::json object = {{"fit", findings.empty() || findings.front().severity != Severity::kProblem},
                                 {"findings", list},
                                 {"ranks", ranks},
                                 {"sum_latency_seconds", facts.sums.latency},
                                 {"sum_bytes_per_second", facts.sums.bandwidth}};
  return json_text(object);
}

}  // namespace ventris
