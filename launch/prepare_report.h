// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "data/prepare.h"

namespace ventris {

/// The result of `prepare` for programs; without what the command itself knows.
nlohmann::json prepare_json(const data::PrepareReport& report);
/// The same for people, as lines.
std::string prepare_text(const data::PrepareReport& report);

}  // namespace ventris
