#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "data/text/tokenizer_pair.h"

// Private to data/.

namespace ventris::data {

struct PreparedTokenizer {
  TokenizerPair tokenizers;
  int64_t sentences;  // that trained it; 0 if it was given
};

/// The training with the tags of the corpora as user-defined symbols: a tag is a whole word, so that with the
/// mark of the space before it, if the tokenizer puts one before a line, it is one token.
TokenizerTraining with_tags(TokenizerTraining training, const std::vector<TrainingCorpus>& corpora);

/// The tokenizer for the corpora: that of the model, if one is given, or one that is trained, in a child
/// process, on evenly spaced pairs of all corpora. Every line is checked on the way. `standard_input` is the
/// path of a copy of it. Errors: those of PairReader, clean_line() and train_tokenizer().
PreparedTokenizer make_tokenizer(const PrepareOptions& options, const std::string& standard_input);

/// Throws DataError kBadConfiguration for a tag of the corpora that the tokenizer does not encode as one
/// token.
void check_tags(const PrepareOptions& options, const Tokenizer& tokenizer);

/// Bytes of the files on the disk; that of the standard input is `standard_input`.
int64_t bytes_of(const std::vector<PairFiles>& files, const std::string& standard_input);

}  // namespace ventris::data
