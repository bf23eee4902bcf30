#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/text/tokenizer.h"

namespace ventris::data {

/// The token ids of a sentence without marks: a view into the corpus file.
class TokenView {
 public:
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = int32_t;
    using difference_type = ptrdiff_t;
    using pointer = const int32_t*;
    using reference = int32_t;

    Iterator() = default;
    Iterator(const TokenView& view, difference_type at) : view_(&view), at_(at) {}
    int32_t operator*() const { return (*view_)[static_cast<size_t>(at_)]; }
    int32_t operator[](difference_type by) const { return *(*this + by); }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    Iterator& operator+=(difference_type by) {
      at_ += by;
      return *this;
    }
    Iterator& operator-=(difference_type by) { return *this += -by; }
    Iterator operator+(difference_type by) const { return Iterator(*this) += by; }
    friend Iterator operator+(difference_type by, const Iterator& from) { return from + by; }
    Iterator operator-(difference_type by) const { return Iterator(*this) -= by; }
    difference_type operator-(const Iterator& other) const { return at_ - other.at_; }
    auto operator<=>(const Iterator& other) const { return at_ <=> other.at_; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const TokenView* view_ = nullptr;
    difference_type at_ = 0;
  };

  TokenView() = default;
  TokenView(const int32_t* tokens, size_t count) : tokens_(tokens), count_(count) {}

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int32_t operator[](size_t i) const { return tokens_[i]; }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, static_cast<ptrdiff_t>(count_)}; }

 private:
  const int32_t* tokens_ = nullptr;
  size_t count_ = 0;
};

/// One side of a set of sentence pairs, mapped from the corpus file.
class SentenceArray {
 public:
  SentenceArray() = default;
  SentenceArray(const int32_t* tokens, const int64_t* offsets, int64_t count)
      : tokens_(tokens), offsets_(offsets), count_(count) {}

  int64_t size() const { return count_; }
  int length(int64_t sentence) const { return static_cast<int>(offsets_[sentence + 1] - offsets_[sentence]); }
  TokenView operator[](int64_t sentence) const {
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

/// One of the corpora of a file: a range of its training pairs.
struct CorpusPart {
  std::string name;
  int64_t first = 0;  // pair
  int64_t pairs = 0;
  int64_t source_tokens = 0;  // without marks
  int64_t target_tokens = 0;
  int longest_source = 0;  // sentence, without marks
  int longest_target = 0;
};

/// The whole of a set as one corpus, by reading all of its lengths.
CorpusPart part_of(const SentencePairs& pairs, std::string name);

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
  /// In the order of their pairs; together all of train(). At least one.
  const std::vector<CorpusPart>& parts() const;
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
