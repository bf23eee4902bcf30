// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer_pair.h"

namespace ventris::data {

/// Some sentence pairs, end to end.
struct CorpusRows {
  std::span<const int32_t> source_tokens;  // without marks
  std::span<const int32_t> target_tokens;
  std::span<const int64_t> source_lengths;  // [pairs]
  std::span<const int64_t> target_lengths;
  std::span<const float> weights;  // [pairs], or empty: all 1
  // The text that was encoded, or empty without CorpusContents::text; for validation pairs target_text alone
  // is required: the raw reference lines.
  std::string_view source_text;
  std::string_view target_text;
  std::span<const int64_t> source_text_lengths;  // [pairs], bytes
  std::span<const int64_t> target_text_lengths;
};

/// One side of some pairs, end to end.
struct CorpusSide {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;
  std::string text;
  std::vector<int64_t> text_lengths;

  /// `Tokens` are a TokenView or a range of ids.
  template <typename Tokens>
  void add(const Tokens& ids) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  void add_text(std::string_view line) {
    text.append(line);
    text_lengths.push_back(static_cast<int64_t>(line.size()));
  }
};

/// Views of both sides and the weights, which may be empty.
CorpusRows rows_of(const CorpusSide& source, const CorpusSide& target, const std::vector<float>& weights);

/// Arrays of a corpus file beside the tokens.
struct CorpusContents {
  bool weights;
  bool text;
};

/// Writes a corpus file (docs/formats.md) with memory that does not grow with it and temporary disk of at
/// most one more corpus; nothing remains of it without commit(). Errors: DataError kCannotCreate, kIo.
class CorpusWriter {
 public:
  /// The tokenizers must stay until the end.
  CorpusWriter(const std::string& output, const TokenizerPair& tokenizers, const CorpusContents& contents);
  ~CorpusWriter();
  CorpusWriter(const CorpusWriter&) = delete;
  CorpusWriter& operator=(const CorpusWriter&) = delete;

  /// The training pairs that follow belong to this corpus (CorpusPart).
  void begin_part(const std::string& name);
  /// `details`, a JSON object, is recorded with the part: its files, counts and options.
  void end_part(const std::string& details);
  void add_train(const CorpusRows& rows);
  /// The validation pairs that follow belong to this set, whose source text is kept. Pairs before the first
  /// such call are the set "valid", without source text.
  void begin_valid_set(const std::string& name);
  void add_valid(const CorpusRows& rows);

  /// Attributes of "/".
  void write_attribute(const std::string& name, const std::string& value);
  void write_attribute(const std::string& name, int64_t value);
  void write_attribute(const std::string& name, double value);

  /// Bytes that the complete file will need with what was added so far.
  int64_t bytes() const;
  void commit();
  /// Hexadecimal, of the committed file.
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris::data
