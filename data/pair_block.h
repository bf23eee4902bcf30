// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/corpus_writer.h"
#include "data/prepare.h"

// Private to data/: a block of sentence pairs in prepare(), and which lines and pairs have the same text.

namespace ventris::data {

class PairEncoder;
class PairReader;

/// A digest of a text, or with Likeness::kNear of its letters.
struct TextKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const TextKey&) const = default;
};

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness);
TextKey key_of_line(std::string_view line, Likeness likeness);
/// The text in lower case without punctuation, digits and spaces; if nothing remains, the text itself.
std::string letters_of(std::string_view text);

struct TextKeyHash {
  size_t operator()(const TextKey& key) const { return key.low; }
};
using KeySet = std::unordered_set<TextKey, TextKeyHash>;

/// Lines end to end.
class LineBuffer {
 public:
  void add(std::string_view line) {
    text_.append(line);
    ends_.push_back(text_.size());
  }
  size_t size() const { return ends_.size(); }
  size_t bytes() const { return text_.size(); }
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

/// What is done with the pairs of a set.
struct PairSet {
  bool drop;  // false: long pairs are truncated, not dropped
  const std::vector<PairFiles>& files;
  const TrainingCorpus* corpus;  // null for validation
  const KeySet* held_out;        // lines that no side of a pair may be, or null
  const PrepareOptions& options;
};

/// A line prepared for a tokenizer, as a view into itself or `scratch`.
struct CleanLine {
  std::string_view text;
  bool repaired_crlf = false;
  bool repaired_nul = false;
};

/// Removes a carriage return at the end and replaces NUL bytes by spaces. Throws DataError kBadData with path
/// and line if the text is not UTF-8.
CleanLine clean_line(std::string_view line, std::string& scratch, const std::string& path,
                     int64_t line_number);

/// Some sentence pairs of one pair of files: filled by read(), encoded by encode() on any thread, completed
/// by finish() in the order of the blocks.
class PairBlock {
 public:
  /// Reads up to 4096 pairs or about 1 MiB of text; false at the end.
  bool read(PairReader& reader);
  void encode(PairEncoder& encoder, const PairSet& set);
  /// Removes pairs whose key is in `seen`, if given, and adds those of the others; then counts.
  void finish(KeySet* seen, const PairSet& set, const TokenizerPair& tokenizers);

  const PrepareCounts& counts() const { return counts_; }
  const CorpusPairs& kept() const { return kept_; }
  int64_t bytes_read() const { return bytes_read_; }
  int64_t pairs_read() const { return pairs_read_; }

 private:
  /// A kept pair.
  struct Pair {
    TextKey key;
    bool repaired_crlf;
    bool repaired_nul;
  };

  void remove_pairs(const std::vector<bool>& removed);

  size_t file_ = 0;
  int64_t first_line_ = 1;
  int64_t bytes_read_ = 0;  // of the files up to here, and pairs
  int64_t pairs_read_ = 0;
  LineBuffer source_lines_;
  LineBuffer target_lines_;
  std::vector<float> read_weights_;

  CorpusPairs kept_;
  std::vector<Pair> pairs_;
  PrepareCounts counts_;
};

void add(PrepareCounts& sum, const PrepareCounts& counts);

}  // namespace ventris::data
