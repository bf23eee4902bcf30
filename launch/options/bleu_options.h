// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "data/scores/bleu.h"
#include "data/scores/metric.h"
#include "trainer/options/option_table.h"

namespace ventris {

/// The group "BLEU" of evaluate and bleu. `chosen`, if not null, takes the tokenizer in place of `bleu`: none
/// for "auto", when the command chooses by the references (data/scores/unspaced_text.h).
void add_bleu_options(data::BleuOptions& bleu, OptionTable& table,
                      std::optional<data::BleuTokenizer>* chosen = nullptr);
/// --protocol and --language.
void add_protocol_options(data::ProtocolOptions& options, OptionTable& table);
/// The group "chrF" of bleu.
void add_chrf_options(data::ChrfOptions& chrf, OptionTable& table);

}  // namespace ventris
