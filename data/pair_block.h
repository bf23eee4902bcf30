#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare.h"

// Private to data/: a block of sentence pairs in prepare().

namespace ventris::data {

class CachedEncoder;
class PairReader;

/// Lines end to end.
class Lines {
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

/// The source of lines and their set, for messages.
struct PairSet {
  const char* name;  // "train" or "valid"
  bool drop;         // false: long pairs are truncated, not dropped
  const std::vector<std::string>& source_paths;
  const std::vector<std::string>& target_paths;
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

/// Some sentence pairs of one pair of files: filled by read(), encoded by encode().
struct PairBlock {
  size_t file = 0;
  int64_t first_line = 1;
  Lines source;
  Lines target;

  std::vector<int32_t> source_tokens;  // of the kept pairs, end to end
  std::vector<int32_t> target_tokens;
  std::vector<int64_t> source_lengths;
  std::vector<int64_t> target_lengths;
  std::string reference_text;  // target lines of the kept pairs, for a set without dropping
  std::vector<int64_t> reference_lengths;
  PrepareCounts counts;
  std::string report;  // lines for the file of dropped pairs

  /// Reads up to 4096 pairs or about 1 MiB of text; false at the end.
  bool read(PairReader& reader);
  void encode(CachedEncoder& encoder, int32_t unknown_id, const PrepareOptions& options, const PairSet& set);
};

void add(PrepareCounts& sum, const PrepareCounts& counts);

}  // namespace ventris::data
