// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/sentence_pairs.h"
#include "data/text/tokenizer.h"

namespace ventris::data {

/// Whether it may be the name of a corpus or of a validation set: 1 to kLongestCorpusName of the characters
/// a-z, 0-9, _ and -.
bool is_corpus_name(const std::string& name);
inline constexpr size_t kLongestCorpusName = 64;

/// One of the corpora of a file: a range of its training pairs.
struct CorpusPart {
  std::string name;
  int64_t first = 0;  // pair
  int64_t pairs = 0;
  int64_t source_tokens = 0;  // without marks
  int64_t target_tokens = 0;
  int longest_source = 0;  // sentence, without marks
  int longest_target = 0;
  std::string details = "{}";  // JSON object: files, counts and options of its preparation
};

/// The name of the set of prepare --valid-sets, whose source text is not kept.
inline constexpr const char* kUnnamedValidSet = "valid";

/// A set of validation pairs.
struct CorpusValidSet {
  std::string name;
  SentencePairs pairs;
};

/// A corpus file (docs/formats.md), memory-mapped read-only. Opening reads its head, its metadata
/// and the tokenizer, whatever its size: bytes are compared with their digests, and offsets and ids with
/// their bounds, when they are first read. Accessors throw DataError kBadData as the classes of
/// data/sentence_pairs.h do. Errors: DataError kMissingInput, kBadData.
class Corpus {
 public:
  explicit Corpus(const std::string& path);
  ~Corpus();
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  const SentencePairs& train() const;
  const SentencePairs& valid() const;  // of the first set
  /// At least one, which may be empty.
  const std::vector<CorpusValidSet>& valid_sets() const;
  /// In the order of their pairs; together all of train(). At least one.
  const std::vector<CorpusPart>& parts() const;
  std::string valid_reference(int64_t sentence, size_t set = 0) const;  // raw text
  /// Likewise, if the file has it (prepare --valid-set); otherwise as the tokens spell it.
  std::string valid_source(int64_t sentence, size_t set = 0) const;
  /// Whether the file has the text that was encoded (prepare --keep-text): views of each side of a pair.
  bool has_text() const;
  std::string_view train_source_text(int64_t pair) const;
  std::string_view train_target_text(int64_t pair) const;
  /// Tells the system that the text of these pairs will be read soon; a file without text has none.
  void expect_text(std::span<const int64_t> pairs) const;
  const TokenizerPair& tokenizers() const;
  int max_length() const;             // longest side of any pair, without marks
  const std::string& digest() const;  // hexadecimal

  /// Reads everything: all bytes that have digests, all sentences and weights. Throws DataError kBadData.
  void check_all(int threads) const;
  const std::string& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris::data
