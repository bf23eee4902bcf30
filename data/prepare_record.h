// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/pair_reader.h"
#include "data/prepare.h"

// Private to data/: what a corpus file records about its preparation.

namespace ventris::data {

class CorpusWriter;
class TokenizerPair;

/// A set of pairs that was read.
struct SetRecord {
  PrepareCounts counts;
  std::vector<InputFile> inputs;
};

/// The record of a part: a JSON object of its files, counts and options.
std::string part_details(const TrainingCorpus& corpus, const SetRecord& record,
                         const PrepareOptions& options);

/// The attributes of "/": counts, options and inputs; those of the file that is appended to are added, and
/// its tokenizers and, if it has validation pairs, their record are taken over.
void write_attributes(CorpusWriter& writer, const PrepareOptions& options, const TokenizerPair& tokenizers,
                      const SetRecord& train, const SetRecord& valid);

}  // namespace ventris::data
