#pragma once

#include <string>
#include <vector>

#include "data/scores/bleu.h"
#include "data/scores/metric.h"
#include "launch/option_table.h"

namespace ventris {

/// The names of BLEU's tokenizers.
std::vector<std::string> bleu_tokenizer_names();
/// Makes help list them below the option, as they do not fit in its line.
void list_tokenizers(Option& option);
/// The group "BLEU" of evaluate and bleu.
void add_bleu_options(data::BleuOptions& bleu, OptionTable& table);
/// The groups "chrF" and "TER" of bleu.
void add_chrf_options(data::ChrfOptions& chrf, OptionTable& table);
void add_ter_options(data::TerOptions& ter, OptionTable& table);

}  // namespace ventris
