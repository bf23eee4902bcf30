#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/text/tokenizer.h"

namespace ventris::data {

/// One side of a set of sentence pairs as token ids without marks, mapped from the corpus file.
class SentenceArray {
 public:
  SentenceArray() = default;
  SentenceArray(const int32_t* tokens, const int64_t* offsets, int64_t count)
      : tokens_(tokens), offsets_(offsets), count_(count) {}

  int64_t size() const { return count_; }
  int length(int64_t sentence) const { return static_cast<int>(offsets_[sentence + 1] - offsets_[sentence]); }
  std::span<const int32_t> operator[](int64_t sentence) const {
    return {tokens_ + offsets_[sentence], static_cast<size_t>(length(sentence))};
  }
  int64_t total_tokens() const { return count_ == 0 ? 0 : offsets_[count_] - offsets_[0]; }

 private:
  const int32_t* tokens_ = nullptr;
  const int64_t* offsets_ = nullptr;
  int64_t count_ = 0;
};

struct SentencePairs {
  SentenceArray source;
  SentenceArray target;
  int64_t size() const { return source.size(); }
};

/// A corpus file, memory-mapped read-only. Datasets: /source/tokens i32, /source/offsets i64, /target/...,
/// /valid/source/..., /valid/target/..., /valid/reference_text and /valid/reference_offsets (the raw target
/// lines, for BLEU), /tokenizer u8; attributes: format, counts, options, provenance. Opening checks the
/// digest, that offsets increase from 0 to the number of tokens, and that every id is in the vocabulary.
/// Errors: DataError kMissingInput, kBadData.
class Corpus {
 public:
  explicit Corpus(const std::string& path);
  ~Corpus();
  Corpus(const Corpus&) = delete;
  Corpus& operator=(const Corpus&) = delete;

  const SentencePairs& train() const;
  const SentencePairs& valid() const;
  std::string valid_reference(int64_t sentence) const;  // raw text
  const Tokenizer& tokenizer() const;
  int max_length() const;             // longest side of any pair, without marks
  const std::string& digest() const;  // hexadecimal
  const std::string& path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris::data
