// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace ventris::data {

class MappedFile;

/// How token ids are stored, and what they may be. The file is mapped, so that it may be changed by others at
/// any moment: each id is read once and compared with the vocabulary as it is read.
struct TokenFormat {
  int bytes = 4;                            // of an id: 2 or 4
  uint32_t vocab_size = uint32_t{1} << 31;  // every id is smaller
  std::string path;                         // for messages
  const char* vocabulary = "vocabulary";    // the same
};

/// The token ids of a sentence without marks: a view into the corpus file. Reading an id throws DataError
/// kBadData if it is not in the vocabulary.
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
    Iterator(const std::byte* at, const TokenFormat* format) : at_(at), format_(format) {}
    int32_t operator*() const { return read(at_, *format_); }
    int32_t operator[](difference_type by) const { return *(*this + by); }
    Iterator& operator++() { return *this += 1; }
    Iterator& operator--() { return *this -= 1; }
    Iterator operator++(int) { return std::exchange(*this, *this + 1); }
    Iterator operator--(int) { return std::exchange(*this, *this - 1); }
    Iterator& operator+=(difference_type by) {
      at_ += by * format_->bytes;
      return *this;
    }
    Iterator& operator-=(difference_type by) { return *this += -by; }
    Iterator operator+(difference_type by) const { return Iterator(*this) += by; }
    friend Iterator operator+(difference_type by, const Iterator& from) { return from + by; }
    Iterator operator-(difference_type by) const { return Iterator(*this) -= by; }
    difference_type operator-(const Iterator& other) const {
      return at_ == other.at_ ? 0 : (at_ - other.at_) / format_->bytes;
    }
    auto operator<=>(const Iterator& other) const { return at_ <=> other.at_; }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    const std::byte* at_ = nullptr;
    const TokenFormat* format_ = nullptr;
  };

  TokenView() = default;
  TokenView(const std::byte* tokens, size_t count, const TokenFormat& format)
      : tokens_(tokens), count_(count), format_(&format) {}

  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  int32_t operator[](size_t i) const { return begin()[static_cast<ptrdiff_t>(i)]; }
  Iterator begin() const { return {tokens_, format_}; }
  Iterator end() const { return count_ == 0 ? begin() : begin() + static_cast<ptrdiff_t>(count_); }

 private:
  [[noreturn]] static void refuse(uint32_t id, const TokenFormat& format);
  static int32_t read(const std::byte* at, const TokenFormat& format) {
    // volatile: the value that is compared is the one that is used.
    const uint32_t id = format.bytes == 2 ? *reinterpret_cast<const volatile uint16_t*>(at)
                                          : *reinterpret_cast<const volatile uint32_t*>(at);
    if (id >= format.vocab_size) refuse(id, format);
    return static_cast<int32_t>(id);
  }

  const std::byte* tokens_ = nullptr;
  size_t count_ = 0;
  const TokenFormat* format_ = nullptr;
};

/// One side of a set of sentence pairs, in memory or mapped from the corpus file. What is read is checked as
/// it is read: DataError kBadData if the bytes of a file changed, or an offset is outside of the tokens.
class SentenceArray {
 public:
  /// Where the arrays are. The offsets of sentence i are offsets[stride * i + first] and the next one.
  struct Stored {
    const std::byte* tokens = nullptr;
    int64_t token_count = 0;  // that offsets may reach
    const int64_t* offsets = nullptr;
    int64_t stride = 1;
    int64_t first = 0;
    int64_t count = 0;    // sentences
    int64_t total = 0;    // tokens of these
    int64_t longest = 0;  // that a sentence may be
    const TokenFormat* format = nullptr;
    const MappedFile* file = nullptr;  // that the arrays are of, or null
  };

  SentenceArray() = default;
  explicit SentenceArray(const Stored& stored) : stored_(stored) {}
  /// Of arrays in memory: sentence i is tokens[offsets[i], offsets[i + 1]).
  SentenceArray(const int32_t* tokens, const int64_t* offsets, int64_t count);

  int64_t size() const { return stored_.count; }
  int length(int64_t sentence) const { return static_cast<int>(place(sentence).second); }
  /// The first token and the number of tokens.
  std::pair<int64_t, int64_t> place(int64_t sentence) const;
  TokenView operator[](int64_t sentence) const;
  int64_t total_tokens() const { return stored_.total; }
  const Stored& stored() const { return stored_; }

 private:
  Stored stored_;
};

struct SentencePairs {
  SentenceArray source;
  SentenceArray target;
  std::span<const float> weights = {};  // one a pair, or none: all 1
  int64_t size() const { return source.size(); }
  bool weighted() const { return !weights.empty(); }
  /// By which the loss of a pair is multiplied: finite and not negative.
  float weight(int64_t pair) const;

  /// Whether pages of a file are read one by one when they are first used.
  bool is_read_in_pieces() const { return source.stored().file != nullptr; }
  /// Ask the system to read what these pairs need soon, many at once and without waiting: the offsets, or the
  /// tokens and weights. The second reads the offsets, and throws as they do.
  void expect_lengths(std::span<const int64_t> pairs) const;
  void expect_tokens(std::span<const int64_t> pairs) const;
};

}  // namespace ventris::data
