#pragma once

#include <string>
#include <vector>

#include "backend/context.h"
#include "data/tokenizer.h"
#include "model/beam_search.h"

namespace ventris {

class Communicator;
struct LoadedModel;

struct Translation {
  std::string text;
  double score = 0.0;
  double log_probability = 0.0;
  int64_t words = 0;  // of the vocabulary
};

/// Translates word-id sentences on all ranks (sorted by length for speed, dealt to ranks in a fixed way) and
/// returns the hypotheses of every sentence, on every rank, in order; results do not depend on the number of
/// ranks.
std::vector<std::vector<Hypothesis>> translate_on_all_ranks(Communicator& communicator, BeamSearch& search,
                                                            const std::vector<std::vector<int32_t>>& sources);

/// Text in, text out: tokenizes, cuts sentences longer than the model's max_positions - 1 words (counted in
/// *cut if not null), translates, detokenizes. An empty line gives an empty translation.
std::vector<std::vector<Translation>> translate_text(Context& context, Communicator& communicator,
                                                     LoadedModel& model,
                                                     const std::vector<std::string>& lines,
                                                     const BeamSearchOptions& options, int64_t* cut);

}  // namespace ventris
