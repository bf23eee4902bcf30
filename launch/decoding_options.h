#pragma once

#include <string>

#include "backend/dtype.h"
#include "launch/option_table.h"
#include "model/beam_search.h"

namespace ventris {

/// What translate and evaluate share.
struct DecodingOptions {
  std::string model;
  BeamSearchOptions search;
  DType precision = DType::kF32;
  std::string device = "auto";
  int threads = 0;
};

/// --model
void add_model_option(DecodingOptions& decoding, OptionTable& table);
/// The groups "Search" and "Machine".
void add_search_options(DecodingOptions& decoding, OptionTable& table);

}  // namespace ventris
