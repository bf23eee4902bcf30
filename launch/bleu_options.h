// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "data/scores/bleu.h"
#include "data/scores/metric.h"
#include "launch/option_table.h"

namespace ventris {

/// The group "BLEU" of evaluate and bleu. `chosen`, if not null, takes the tokenizer in place of `bleu`: none
/// for "auto", when the command chooses by the references (data/scores/fitting_tokenizer.h).
void add_bleu_options(data::BleuOptions& bleu, OptionTable& table,
                      std::optional<data::BleuTokenizer>* chosen = nullptr);
/// The group "chrF" of bleu.
void add_chrf_options(data::ChrfOptions& chrf, OptionTable& table);

}  // namespace ventris
