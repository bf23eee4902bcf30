#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"

namespace ventris::data {

struct PrepareOptions {
  std::vector<std::string> train_source;  // files, plain or gzipped; file i of each side belong together
  std::vector<std::string> train_target;
  std::vector<std::string> valid_source;
  std::vector<std::string> valid_target;
  std::string tokenizer_model;  // file of a SentencePiece model; empty: train one
  std::string tokenizer_bytes;  // its bytes, if the file is another and they were read from it
  TokenizerTraining tokenizer;
  int max_length = 256;           // tokens of the vocabulary a side; longer pairs are dropped from training
  double max_length_ratio = 9.0;  // longer side over shorter side, in tokens + 1; 0 keeps all
  int threads = 1;
  std::string output;          // corpus.h5
  std::string dropped_report;  // file: one line for each dropped or repaired pair; "": no file
};

/// Counts of the pairs of one set. Every pair is either kept or counted under one reason for dropping.
struct PrepareCounts {
  int64_t read = 0;
  int64_t kept = 0;
  int64_t empty = 0;  // a side without tokens
  int64_t too_long = 0;
  int64_t bad_ratio = 0;
  int64_t repaired_crlf = 0;  // kept; a carriage return before the line end removed
  int64_t repaired_nul = 0;   // kept; NUL bytes replaced by spaces
  int64_t source_tokens = 0;  // of kept pairs, without marks
  int64_t target_tokens = 0;
  int64_t unknown_tokens = 0;
  CharacterCounts unknown_characters;  // of kept pairs
};

struct PrepareReport {
  PrepareCounts train;
  PrepareCounts valid;
  int32_t vocab_size = 0;
  std::string digest;  // of the corpus file
};

/// Reads, checks and tokenizes parallel text on `threads` cores with memory that does not grow with the
/// corpus (except for a sample of sentences while a tokenizer is trained) and writes one corpus file. On
/// failure nothing remains at `output`. Validation pairs are never dropped for length or ratio, only
/// truncated at max_length tokens and counted in too_long. Errors: DataError with file and line.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace ventris::data
