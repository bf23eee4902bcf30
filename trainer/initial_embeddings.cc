// SPDX-License-Identifier: Apache-2.0
#include "trainer/initial_embeddings.h"

#include <fmt/core.h>

#include <algorithm>
#include <cfloat>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "backend/device/error.h"
#include "data/error.h"
#include "data/text/text_reader.h"
#include "data/text/unicode.h"

namespace ventris {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, for a space before a token

std::vector<std::string_view> fields_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> fields;
  for (size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return fields;
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// The first line of a file of word2vec.
struct Header {
  int64_t entries = 0;
  int64_t numbers = 0;
};

std::optional<Header> header_of(const std::vector<std::string_view>& fields) {
  Header header;
  const bool is_header = fields.size() == 2 && parse_number(fields[0], header.entries) &&
                         parse_number(fields[1], header.numbers);
  return is_header ? std::optional(header) : std::nullopt;
}

/// A pipe could be waited for without an end, and its text is gone after a refused start.
void check_is_a_file(const std::string& path) {
  std::error_code error;  // of a missing file, which the reader reports
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    data::fail(data::ErrorKind::kBadData,
               "{}: not a regular file; expected a text file of vectors, plain or gzipped", path);
  }
}

[[noreturn]] void refuse_width(const std::string& path, int64_t line, int64_t numbers, int64_t d_model) {
  fail(ExitCode::kBadConfiguration,
       "{}, line {}: vectors of {} numbers, but --d-model is {}. Give vectors of that many numbers, or their "
       "--d-model",
       path, line, numbers, d_model);
}

bool has_no_letter(std::string_view text) {
  const std::u32string characters = data::unicode::decode(text);
  return std::all_of(characters.begin(), characters.end(), [](char32_t c) {
    return data::unicode::is_punctuation(c) || data::unicode::is_symbol(c);
  });
}

/// Vectors of tokens, under one reading of the entries.
class Found {
 public:
  Found(const data::Tokenizer& tokenizer, int64_t d_model)
      : tokenizer_(tokenizer),
        d_model_(d_model),
        has_(static_cast<size_t>(tokenizer.vocab_size())),
        values_(has_.size() * static_cast<size_t>(d_model)) {
    // Several marks may be one token.
    for (const int32_t mark : {tokenizer.unknown_id(), tokenizer.begin_id(), tokenizer.end_id()}) {
      if (!is_mark(mark)) marks_.push_back(mark);
    }
  }

  void take(std::string_view piece, const std::vector<float>& vector) {
    const int32_t id = tokenizer_.find(piece);
    if (id < 0 || has_[static_cast<size_t>(id)] || is_mark(id)) return;
    has_[static_cast<size_t>(id)] = true;
    std::copy(vector.begin(), vector.end(), values_.begin() + id * d_model_);
  }

  int64_t count() const { return std::count(has_.begin(), has_.end(), true); }
  int64_t tokens() const { return static_cast<int64_t>(has_.size() - marks_.size()); }

  /// Writes the vectors to their rows, and returns the factor.
  double write(Tensor table) const {
    double squares = 0.0;
    for (const float value : values_) squares += static_cast<double>(value) * value;
    const double mean = squares / static_cast<double>(count() * d_model_);
    const double scale = mean > 0.0 ? std::sqrt(1.0 / (static_cast<double>(d_model_) * mean)) : 1.0;
    for (size_t id = 0; id < has_.size(); ++id) {
      if (!has_[id]) continue;
      const float* from = values_.data() + id * static_cast<size_t>(d_model_);
      float* to = table.row<float>(static_cast<int64_t>(id));
      for (int64_t i = 0; i < d_model_; ++i) to[i] = static_cast<float>(scale * from[i]);
    }
    return scale;
  }

 private:
  bool is_mark(int32_t id) const { return std::find(marks_.begin(), marks_.end(), id) != marks_.end(); }

  const data::Tokenizer& tokenizer_;
  int64_t d_model_;
  std::vector<bool> has_;
  std::vector<float> values_;  // [vocabulary, d_model]
  std::vector<int32_t> marks_;
};

}  // namespace

std::vector<EmbeddingFile> embedding_files(const TrainOptions& options, bool one_vocabulary) {
  const std::vector<std::string>& paths = options.initial_embeddings;
  if (paths.empty()) return {};
  if (paths.size() == 1) {
    if (!one_vocabulary) {
      fail(
          ExitCode::kBadConfiguration,
          "--init-embeddings is {}, but {} has a vocabulary for each side: give two files, of the sources and of "
          "the targets",
          paths.front(), options.corpus);
    }
    return {{.path = paths.front(), .source = true, .target = true, .vocabulary = "vocabulary"}};
  }
  if (options.model.tie == Tie::kAll) {
    fail(
        ExitCode::kBadConfiguration,
        "--init-embeddings is {} and {}, but both sides have the same embedding (--tie all): give one file, or "
        "--tie decoder or none",
        paths.front(), paths.back());
  }
  std::vector<EmbeddingFile> files;
  for (const bool source : {true, false}) {
    const char* const side = source ? "source" : "target";
    files.push_back({.path = source ? paths.front() : paths.back(),
                     .source = source,
                     .target = !source,
                     .vocabulary = one_vocabulary ? fmt::format("vocabulary in the {} embedding", side)
                                                  : fmt::format("{} vocabulary", side)});
  }
  return files;
}

EmbeddingCoverage read_embeddings(const EmbeddingFile& file, const data::Tokenizer& tokenizer, Tensor table) {
  const std::string& path = file.path;
  const int64_t d_model = table.cols;
  const size_t numbers = static_cast<size_t>(d_model);
  Found as_tokens(tokenizer, d_model);
  Found as_words(tokenizer, d_model);
  bool tokens = false;  // an entry begins with the mark of a space
  EmbeddingCoverage coverage;
  std::vector<float> vector(numbers);
  check_is_a_file(path);
  std::optional<Header> header;
  data::TextReader reader(path);
  for (std::string line; reader.next(line);) {
    const int64_t number = reader.line_number();
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    const std::vector<std::string_view> fields = fields_of(line);
    if (fields.empty()) continue;
    if (number == 1 && (header = header_of(fields))) {
      if (header->numbers != d_model) refuse_width(path, number, header->numbers, d_model);
      continue;
    }
    if (coverage.entries == 0 && fields.size() != numbers + 1)
      refuse_width(path, number, static_cast<int64_t>(fields.size()) - 1, d_model);
    // A word may have blanks inside, as a few of GloVe do.
    if (fields.size() < numbers + 1) {
      data::fail(data::ErrorKind::kBadData, "{}, line {}: {} fields; expected a word and {} numbers", path,
                 number, fields.size(), d_model);
    }
    const size_t first = fields.size() - numbers;
    for (size_t i = 0; i < numbers; ++i) {
      const std::string_view text = fields[first + i];
      double value = 0.0;
      if (parse_number(text, value) && std::abs(value) <= FLT_MAX) {
        vector[i] = static_cast<float>(value);
        continue;
      }
      data::fail(data::ErrorKind::kBadData,
                 "{}, line {}: '{}' is not a finite number; expected a word and {}", path, number,
                 text.substr(0, 40), d_model);
    }
    ++coverage.entries;
    if (first != 1) continue;
    const std::string_view word = fields[0];
    tokens = tokens || word.starts_with(kSpace);
    as_tokens.take(word, vector);
    as_words.take(std::string(kSpace) + std::string(word), vector);
    if (has_no_letter(word)) as_words.take(word, vector);
  }
  if (header && header->entries != coverage.entries) {
    data::fail(data::ErrorKind::kBadData, "{}: {} vectors, but its first line says {}; is the file cut?",
               path, coverage.entries, header->entries);
  }
  const Found& found = tokens ? as_tokens : as_words;
  coverage.tokens = found.tokens();
  coverage.covered = found.count();
  if (coverage.covered == 0) {
    fail(ExitCode::kBadConfiguration,
         "{}: none of its {} entries is a token of the {}. Expected lines of a word and its numbers, "
         "for words as the tokenizer cuts them{}",
         path, coverage.entries, file.vocabulary,
         file.source == file.target ? "" : "; is it the file of the other side?");
  }
  coverage.scale = found.write(table);
  return coverage;
}

}  // namespace ventris
