// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/checks/doctor_facts.h"

namespace ventris {

enum class Severity { kProblem, kWarning, kNote, kFine };  // worst first
const char* name_of(Severity severity);

/// The result of one check. A problem is a cause for which training would fail.
struct Finding {
  Severity severity;
  std::string check;
  std::string text;
  std::string advice;  // the remedy, or ""
};

// Each check judges facts, and also reports what is fine.
std::vector<Finding> judge_programs(const DoctorFacts& facts);
std::vector<Finding> judge_hosts(const DoctorFacts& facts);
std::vector<Finding> judge_cores(const DoctorFacts& facts);
std::vector<Finding> judge_devices(const DoctorFacts& facts);
std::vector<Finding> judge_links(const DoctorFacts& facts);
std::vector<Finding> judge_steps(const DoctorFacts& facts);
std::vector<Finding> judge_sums(const DoctorFacts& facts);
std::vector<Finding> judge_folder(const DoctorFacts& facts);
std::vector<Finding> judge_limits(const DoctorFacts& facts);
std::vector<Finding> judge_clocks(const DoctorFacts& facts);
/// All checks, worst first.
std::vector<Finding> judge(const DoctorFacts& facts);

}  // namespace ventris
