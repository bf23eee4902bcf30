// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "data/scores/moses_tokenize.h"

namespace ventris::data {

/// Whether a period after `word` belongs to it: always, before numbers only, or never.
enum class PeriodRule { kNever, kBeforeNumbers, kAlways };
PeriodRule moses_period_rule(std::u32string_view word, MosesLanguage language);

}  // namespace ventris::data
