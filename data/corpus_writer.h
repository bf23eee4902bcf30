// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

namespace ventris::data {

/// One side of some pairs, end to end.
struct CorpusSide {
  std::vector<int32_t> tokens;  // without marks
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

/// Some pairs. The text is that which was encoded, and needed with CorpusContents::text; of validation pairs
/// the target's, the raw reference, always, and the source's after begin_valid_set().
struct CorpusPairs {
  CorpusSide source;
  CorpusSide target;
  std::vector<float> weights = {};  // one a pair, or none: all 1
};

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
  void add_train(const CorpusPairs& pairs);
  /// The validation pairs that follow belong to this set, whose source text is kept. Pairs before the first
  /// such call are the set "valid", without source text.
  void begin_valid_set(const std::string& name);
  void add_valid(const CorpusPairs& pairs);

  /// Attributes of "/".
  void write_attribute(const std::string& name, const std::string& value);
  void write_attribute(const std::string& name, int64_t value);
  void write_attribute(const std::string& name, double value);

  void commit();
  /// Hexadecimal, of the committed file.
  const std::string& digest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ventris::data
