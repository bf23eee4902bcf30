// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/checks/doctor_facts.h"
#include "trainer/checks/doctor_judgement.h"

namespace ventris {

/// A page for a person, and one JSON object with the findings and the facts.
std::string doctor_page(const DoctorFacts& facts, const std::vector<Finding>& findings);
std::string doctor_json(const DoctorFacts& facts, const std::vector<Finding>& findings);

}  // namespace ventris
