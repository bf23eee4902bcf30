#pragma once

#include <string>
#include <vector>

#include "trainer/checks/doctor_facts.h"

namespace ventris {

enum class Severity { kProblem, kWarning, kNote, kFine };  // the worst first
const char* name_of(Severity severity);

/// What was found in one check. A problem is what training would fail of.
struct Finding {
  Severity severity;
  std::string check;
  std::string text;
  std::string advice;  // what to do; "" where nothing is
};

// Each check judges facts, and says what is fine, too.
std::vector<Finding> judge_programs(const DoctorFacts& facts);
std::vector<Finding> judge_hosts(const DoctorFacts& facts);
std::vector<Finding> judge_cores(const DoctorFacts& facts);
std::vector<Finding> judge_devices(const DoctorFacts& facts);
std::vector<Finding> judge_sums(const DoctorFacts& facts);
std::vector<Finding> judge_folder(const DoctorFacts& facts);
std::vector<Finding> judge_limits(const DoctorFacts& facts);
std::vector<Finding> judge_clocks(const DoctorFacts& facts);
/// All of them, the worst first.
std::vector<Finding> judge(const DoctorFacts& facts);

}  // namespace ventris
