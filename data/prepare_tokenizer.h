// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "data/text/tokenizer.h"

// Private to data/.

namespace ventris::data {

struct PreparedTokenizers {
  TokenizerPair tokenizers;
  int64_t sentences;         // that trained it, or that of targets; 0 if it was given
  int64_t source_sentences;  // that trained that of sources, if there are two
};

/// The text that a tokenizer is for.
enum class Sides { kBoth, kSource, kTarget };

/// The training of a tokenizer with the tags of its sides in the corpora as user-defined symbols: a tag is a
/// whole word, so that with the mark of the space before it, if the tokenizer puts one before a line, it is
/// one token.
TokenizerTraining training_of(const PrepareOptions& options, Sides sides);

/// The tokenizers for the corpora: those of the models, if they are given, or each trained in a child process
/// on its sides of evenly spaced pairs of all corpora. Every line is checked on the way. Errors: those of
/// PairReader, clean_line() and train_tokenizer().
PreparedTokenizers make_tokenizers(const PrepareOptions& options);

/// Throws DataError kBadConfiguration for a tag of the corpora that the tokenizer of its side does not encode
/// as one token.
void check_tags(const PrepareOptions& options, const TokenizerPair& tokenizers);

/// Bytes of the files on the disk.
int64_t bytes_of(const std::vector<PairFiles>& files);

}  // namespace ventris::data
