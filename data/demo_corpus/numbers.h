// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ventris::data {

/// German and English number words, for the generator and its tests. Requires 0 <= n <= 999,999,999.
std::string english_cardinal(int64_t n);
std::string german_cardinal(int64_t n);
std::string english_ordinal(int64_t n);
std::string german_ordinal(int64_t n);  // without ending, e.g. "einundzwanzigst"

}  // namespace ventris::data
