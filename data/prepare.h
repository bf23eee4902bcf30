// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/text/pair_reader.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"

namespace ventris::data {

/// Pairs to validate on, beside the others or alone; the source text is kept, too.
struct NamedValidSet {
  std::string name;  // as of a corpus (is_corpus_name())
  PairFiles files;
};

/// One of the corpora to train on. A tag, with a space after it, is put before each line of its side.
struct TrainingCorpus {
  std::string name;  // is_corpus_name()
  std::vector<PairFiles> files;
  std::string weights = "";  // a file with a number for each pair of all files: the weight of its loss
  std::string source_tag = "";
  std::string target_tag = "";
};

/// What counts as the same text: nothing; equal text; text that is equal without case, punctuation, digits
/// and spaces.
enum class Likeness { kNone, kExact, kNear };

/// What prepare() is doing. `phase` is one of "reading", "training the tokenizer", the same with "of sources"
/// or "of targets", "tokenizing", "writing".
struct PrepareProgress {
  const char* phase;
  int64_t pairs;      // of this phase so far
  int64_t bytes;      // of the inputs of this phase, as they are on the disk
  int64_t all_bytes;  // 0: unknown
};

struct PrepareOptions {
  std::vector<TrainingCorpus> corpora;
  std::vector<PairFiles> valid;                // the set "valid"; empty: none
  std::vector<NamedValidSet> valid_sets = {};  // further sets
  std::string tokenizer_model;                 // file of a SentencePiece model; empty: train one
  std::string source_tokenizer_model;  // file of that of sources; then `tokenizer_model` is that of targets
  TokenizerModels tokenizer_models;    // if tokenizer_model is a file of another kind: what it holds
  TokenizerTraining tokenizer;
  int source_vocab_size = 0;  // of a tokenizer to train on the sources; then `tokenizer` is that of targets
  int max_length = 256;       // tokens of the vocabulary a side; longer pairs are dropped from training
  double max_length_ratio = 9.0;               // longer side over shorter side, in tokens + 1; 0 keeps all
  Likeness drop_duplicates = Likeness::kNone;  // of pairs kept before, of all `corpora`
  Likeness drop_overlap = Likeness::kNone;     // pairs with a side that is a line of validation or `held_out`
  std::vector<std::string> held_out;           // files of such lines
  bool keep_text = false;                      // writes the text that was encoded, too
  int threads = 1;
  std::string output;                                    // corpus.h5
  std::function<void(const PrepareProgress&)> progress;  // called about every block of pairs; may be empty
};

/// Counts of the pairs of one set. Every pair is either kept or counted under one reason for dropping, the
/// first of these that holds.
struct PrepareCounts {
  int64_t read = 0;
  int64_t kept = 0;
  int64_t empty = 0;    // a side without tokens
  int64_t overlap = 0;  // a side is a line of the validation set or of a held-out file
  int64_t too_long = 0;
  int64_t bad_ratio = 0;
  int64_t duplicate = 0;
  int64_t near_duplicate = 0;  // all repetitions with Likeness::kNear
  int64_t repaired_crlf = 0;   // kept; a carriage return before the line end removed
  int64_t repaired_nul = 0;    // kept; NUL bytes replaced by spaces
  double weights = 0.0;        // sum over kept pairs
  int64_t source_tokens = 0;   // of kept pairs, without marks
  int64_t target_tokens = 0;
  int64_t unknown_tokens = 0;
};

/// The counts by their names in a corpus file. "dropped_too_long" is "cut_too_long" of validation pairs.
inline constexpr std::pair<const char*, int64_t PrepareCounts::*> kPrepareCounts[] = {
    {"pairs", &PrepareCounts::kept},
    {"pairs_read", &PrepareCounts::read},
    {"dropped_empty", &PrepareCounts::empty},
    {"dropped_too_long", &PrepareCounts::too_long},
    {"dropped_bad_ratio", &PrepareCounts::bad_ratio},
    {"dropped_overlap", &PrepareCounts::overlap},
    {"dropped_duplicate", &PrepareCounts::duplicate},
    {"dropped_near_duplicate", &PrepareCounts::near_duplicate},
    {"repaired_crlf", &PrepareCounts::repaired_crlf},
    {"repaired_nul", &PrepareCounts::repaired_nul},
    {"source_words", &PrepareCounts::source_tokens},
    {"target_words", &PrepareCounts::target_tokens},
    {"unknown_words", &PrepareCounts::unknown_tokens}};

struct PreparedCorpus {
  TrainingCorpus corpus;
  PrepareCounts counts;
};

struct PrepareReport {
  std::vector<PreparedCorpus> corpora;  // in their order
  PrepareCounts train;                  // their sum
  PrepareCounts valid;
  int64_t tokenizer_sentences = 0;  // that trained the tokenizer, or that of targets; 0 if it was given
  int32_t vocab_size = 0;
  int64_t source_tokenizer_sentences = 0;  // of sources, if they have their own
  int32_t source_vocab_size = 0;           // 0: one vocabulary for both sides
  std::string digest;                      // of the corpus file
};

/// Reads, checks and tokenizes parallel text on `threads` cores with memory that does not grow with the
/// corpus, except by about 45 bytes for each kept pair to find duplicates, and for each held-out line, and
/// writes one corpus file. A tokenizer is trained in a child process on a sample of the sentences, of two one
/// after the other. On failure
/// nothing remains at `output`. Validation pairs are never dropped for length or ratio, only truncated at
/// max_length tokens and counted in too_long; they get no tags. Must be called before this process has other
/// threads if it trains a tokenizer. Errors: DataError with file and line.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace ventris::data
