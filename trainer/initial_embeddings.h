// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/device/tensor.h"
#include "data/text/tokenizer.h"
#include "trainer/train_options.h"

namespace ventris {

/// A file of vectors for the embeddings of a side, or of both, which then share their vocabulary. The output
/// layer's own table, if it has one, begins with random values.
struct EmbeddingFile {
  std::string path;
  bool source;
  bool target;
  std::string vocabulary;  // "vocabulary", "source vocabulary"; for messages
};

/// Those of --init-embeddings, with a complete options.model. Throws Error(kBadConfiguration) if they do not
/// fit the vocabularies and tables.
std::vector<EmbeddingFile> embedding_files(const TrainOptions& options, bool one_vocabulary);

/// What a file of vectors gave to an embedding table.
struct EmbeddingCoverage {
  int64_t entries = 0;  // vectors of the file
  int64_t tokens = 0;   // of the vocabulary, marks not counted
  int64_t covered = 0;  // of these, those that got a vector
  double scale = 1.0;   // by which the vectors were multiplied
};

/// Reads vectors in the text format of word2vec (first line "ENTRIES DIMENSION") or GloVe (no first line):
/// lines of a word and its numbers, plain or gzipped, into the rows of `table`, [vocabulary, d_model] f32 on
/// the host. An entry is for the token of the same text if an entry of the file begins with the mark of
/// SentencePiece for a space, U+2581. Otherwise entries are words: one is for the token that is that word
/// with its leading space, and one of punctuation or symbols also for the token without. Of several entries
/// for a token the first counts. Covered rows are multiplied by one factor that gives them the root mean
/// square of the initial values, d_model^-0.5. Errors: those of TextReader; DataError(kBadData) with file and
/// line for another number of numbers, and for one that no f32 holds, and if the file is not a regular one
/// or has not the entries that its first line says; Error(kBadConfiguration) if the vectors are not of
/// d_model numbers, or none is for a token. Words that are not UTF-8 are those of no token.
EmbeddingCoverage read_embeddings(const EmbeddingFile& file, const data::Tokenizer& tokenizer, Tensor table);

}  // namespace ventris
