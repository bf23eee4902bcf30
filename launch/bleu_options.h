#pragma once

#include <string>
#include <vector>

#include "data/bleu.h"
#include "data/metric.h"
#include "launch/option_table.h"

namespace ventris {

/// The group "BLEU" of evaluate and bleu.
void add_bleu_options(data::BleuOptions& bleu, OptionTable& table);
/// The groups "chrF" and "TER" of bleu.
void add_chrf_options(data::ChrfOptions& chrf, OptionTable& table);
void add_ter_options(data::TerOptions& ter, OptionTable& table);

/// "BLEU|nrefs:1|... = 38.2 69.1/45.0/31.2/21.8 (BP = ...)", or one JSON object, with a line end.
std::string bleu_line(const data::BleuScore& score, const data::BleuOptions& bleu, size_t references);
std::string bleu_json(const data::BleuScore& score, const data::BleuOptions& bleu, size_t references);

}  // namespace ventris
