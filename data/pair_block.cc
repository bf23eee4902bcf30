// SPDX-License-Identifier: Apache-2.0
#include "data/pair_block.h"

#include <algorithm>
#include <optional>

#include "data/error.h"
#include "data/pair_encoder.h"
#include "data/pair_reader.h"
#include "data/text/text_reader.h"

namespace ventris::data {

namespace {

constexpr size_t kBlockPairs = 4096;
constexpr size_t kBlockBytes = size_t{1} << 20;

/// Removes the pieces of a row, which lie end to end.
template <typename Row>
void remove_pieces(Row& row, std::vector<int64_t>& lengths, const std::vector<bool>& removed) {
  auto to = row.begin();
  auto from = row.begin();
  size_t kept = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const auto end = from + lengths[i];
    if (!removed[i]) {
      to = from == to ? end : std::copy(from, end, to);
      lengths[kept++] = lengths[i];
    }
    from = end;
  }
  row.erase(to, row.end());
  lengths.resize(kept);
}

/// What the tokenizer gets: the line, with a tag before it. `text` may hold the bytes.
std::string_view with_tag(const std::string& tag, std::string_view line, std::string& text) {
  if (tag.empty()) return line;
  text = tag + " ";
  return text += line;
}

/// Counts the tokens of a line in those of the line with a tag before it: without the tag, which is the token
/// check_tags() found, or two where the tokenizer has the space before it as a token.
class LineTokens {
 public:
  LineTokens(const Tokenizer& tokenizer, const std::string& tag) {
    if (tag.empty()) return;
    of_tag_ = tokenizer.encode(tag).size();
    before_nothing_ = tokenizer.encode(tag + " ");
  }
  size_t in(const std::vector<int32_t>& ids) const {
    return ids == before_nothing_ ? 0 : ids.size() - std::min(of_tag_, ids.size());
  }

 private:
  size_t of_tag_ = 0;
  std::vector<int32_t> before_nothing_;  // with the space after the tag, if the tokenizer keeps it
};

void add_characters(CharacterCounts& sum, const CharacterCounts& counts) {
  for (const auto& [character, count] : counts) sum[character] += count;
}

}  // namespace

CleanLine clean_line(std::string_view line, std::string& scratch, const std::string& path,
                     int64_t line_number) {
  CleanLine clean{line};
  if (line.ends_with('\r')) {
    clean.text.remove_suffix(1);
    clean.repaired_crlf = true;
  }
  const int64_t invalid = find_invalid_utf8(clean.text);
  if (invalid >= 0) {
    fail(ErrorKind::kBadData,
         "{}:{}: byte {} of the line (hexadecimal {:02x}) is not UTF-8; convert the file, "
         "for example with iconv, or remove the line from both sides",
         path, line_number, invalid + 1,
         static_cast<unsigned char>(clean.text[static_cast<size_t>(invalid)]));
  }
  if (clean.text.find('\0') != std::string_view::npos) {
    scratch = clean.text;
    std::replace(scratch.begin(), scratch.end(), '\0', ' ');
    clean.text = scratch;
    clean.repaired_nul = true;
  }
  return clean;
}

bool PairBlock::read(PairReader& reader) {
  RawPair pair;
  // A block is from one pair of files, so that file and first line locate all its lines.
  while (source_lines_.size() < kBlockPairs && source_lines_.bytes() + target_lines_.bytes() < kBlockBytes) {
    if (reader.next(pair)) {
      if (source_lines_.size() == 0) {
        file_ = reader.file();
        first_line_ = reader.line_number();
        first_had_mark_ = pair.had_mark;
      }
      source_lines_.add(pair.source);
      target_lines_.add(pair.target);
      read_weights_.push_back(pair.weight);
    } else if (source_lines_.size() > 0 || !reader.next_files()) {
      break;
    }
  }
  bytes_read_ = reader.bytes_read();
  pairs_read_ = reader.pairs();
  return source_lines_.size() > 0;
}

void PairBlock::encode(PairEncoder& encoder, const PairSet& set) {
  const PrepareOptions& options = set.options;
  const std::string source_path = set.files[file_].source;
  const std::string target_path = set.files[file_].target.empty() ? source_path : set.files[file_].target;
  const std::string source_tag = set.corpus == nullptr ? "" : set.corpus->source_tag;
  const std::string target_tag = set.corpus == nullptr ? "" : set.corpus->target_tag;
  const LineTokens source_tokens(encoder.source().tokenizer(), source_tag);
  const LineTokens target_tokens(encoder.target().tokenizer(), target_tag);
  const auto max_length = static_cast<size_t>(options.max_length);
  const bool keeps_text = !set.drop || options.keep_text;
  std::string source_scratch;
  std::string target_scratch;
  std::string source_text;
  std::string target_text;
  std::vector<int32_t> source_ids;
  std::vector<int32_t> target_ids;
  for (size_t i = 0; i < source_lines_.size(); ++i) {
    const int64_t line = first_line_ + static_cast<int64_t>(i);
    const CleanLine source = clean_line(source_lines_[i], source_scratch, source_path, line);
    const CleanLine target = clean_line(target_lines_[i], target_scratch, target_path, line);
    const std::string_view encoded_source = with_tag(source_tag, source.text, source_text);
    const std::string_view encoded_target = with_tag(target_tag, target.text, target_text);
    encoder.source().encode(encoded_source, source_ids);
    encoder.target().encode(encoded_target, target_ids);
    ++counts_.read;
    const size_t shorter = std::min(source_tokens.in(source_ids), target_tokens.in(target_ids));
    const size_t longer = std::max(source_ids.size(), target_ids.size());
    const auto lengths = [&] {
      return fmt::format("{} source and {} target tokens", source_ids.size(), target_ids.size());
    };
    if (shorter == 0) {
      ++counts_.empty;
      report_line(set, line, "empty", lengths());
      continue;
    }
    if (set.held_out != nullptr && (set.held_out->contains(key_of_line(source.text, options.drop_overlap)) ||
                                    set.held_out->contains(key_of_line(target.text, options.drop_overlap)))) {
      ++counts_.overlap;
      report_line(set, line, "overlap", "a side is a line of the validation or a held-out text");
      continue;
    }
    if (longer > max_length) {
      ++counts_.too_long;
      if (set.drop) {
        report_line(set, line, "too_long", fmt::format("{}, at most {}", lengths(), max_length));
        continue;
      }
      report_line(set, line, "cut", fmt::format("{}, at most {}", lengths(), max_length));
      source_ids.resize(std::min(source_ids.size(), max_length));
      target_ids.resize(std::min(target_ids.size(), max_length));
    }
    if (set.drop && options.max_length_ratio > 0.0 &&
        static_cast<double>(longer + 1) > options.max_length_ratio * static_cast<double>(shorter + 1)) {
      ++counts_.bad_ratio;
      report_line(set, line, "bad_ratio",
                  fmt::format("{}, a ratio of at most {}", lengths(), options.max_length_ratio));
      continue;
    }
    count_unknown(source_ids, encoded_source, encoder.source().tokenizer());
    count_unknown(target_ids, encoded_target, encoder.target().tokenizer());
    pairs_.push_back({.line = line,
                      .key = set.drop && options.drop_duplicates != Likeness::kNone
                                 ? key_of_pair(source.text, target.text, options.drop_duplicates)
                                 : TextKey{},
                      .repaired_crlf = source.repaired_crlf || target.repaired_crlf,
                      .repaired_nul = source.repaired_nul || target.repaired_nul,
                      .repaired_bom = i == 0 && first_had_mark_});
    weights_.push_back(read_weights_[i]);
    source_.add(source_ids);
    target_.add(target_ids);
    if (keeps_text) {
      source_.add_text(encoded_source);
      target_.add_text(encoded_target);
    }
  }
}

void PairBlock::count_unknown(const std::vector<int32_t>& ids, std::string_view text,
                              const Tokenizer& tokenizer) {
  if (std::find(ids.begin(), ids.end(), tokenizer.unknown_id()) == ids.end()) return;
  if (unknown_.empty() || unknown_.back().first != pairs_.size())
    unknown_.emplace_back(pairs_.size(), CharacterCounts{});
  tokenizer.count_unknown(text, unknown_.back().second);
}

void PairBlock::finish(KeySet* seen, const PairSet& set, const TokenizerPair& tokenizers) {
  if (seen != nullptr) {
    std::vector<bool> removed(pairs_.size());
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const std::optional<TextKey> before = seen->find_or_add(pairs_[i].key);
      if (!before) continue;
      removed[i] = true;
      const bool is_equal = before->low == pairs_[i].key.low;
      ++(is_equal ? counts_.duplicate : counts_.near_duplicate);
      report_line(set, pairs_[i].line, is_equal ? "duplicate" : "near_duplicate",
                  "a pair before it was kept");
    }
    if (counts_.duplicate + counts_.near_duplicate > 0) remove_pairs(removed);
  }
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& pair = pairs_[i];
    std::string reasons;
    const auto count_repair = [&reasons](bool repaired, int64_t& count, const char* reason) {
      if (!repaired) return;
      ++count;
      reasons += (reasons.empty() ? "" : ",") + std::string(reason);
    };
    count_repair(pair.repaired_crlf, counts_.repaired_crlf, "repaired_crlf");
    count_repair(pair.repaired_nul, counts_.repaired_nul, "repaired_nul");
    count_repair(pair.repaired_bom, counts_.repaired_bom, "repaired_bom");
    if (!reasons.empty()) report_line(set, pair.line, reasons, "kept");
    counts_.weights += static_cast<double>(weights_[i]);
  }
  for (const auto& [pair, characters] : unknown_) add_characters(counts_.unknown_characters, characters);
  counts_.kept = static_cast<int64_t>(pairs_.size());
  const auto count_tokens = [&](const CorpusSide& side, const Tokenizer& tokenizer) {
    counts_.unknown_tokens += std::count(side.tokens.begin(), side.tokens.end(), tokenizer.unknown_id());
    return std::ssize(side.tokens);
  };
  counts_.source_tokens = count_tokens(source_, tokenizers.source());
  counts_.target_tokens = count_tokens(target_, tokenizers.target());
  // Those of duplicates came after the others of the block.
  std::ranges::stable_sort(reported_, {}, &std::pair<int64_t, std::string>::first);
}

void PairBlock::remove_pairs(const std::vector<bool>& removed) {
  for (CorpusSide* const side : {&source_, &target_}) {
    remove_pieces(side->tokens, side->lengths, removed);
    if (!side->text_lengths.empty()) remove_pieces(side->text, side->text_lengths, removed);
  }
  size_t kept = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (removed[i]) continue;
    pairs_[kept] = pairs_[i];
    weights_[kept++] = weights_[i];
  }
  pairs_.resize(kept);
  weights_.resize(kept);
  std::erase_if(unknown_, [&](const auto& entry) { return removed[entry.first]; });
}

void PairBlock::report_line(const PairSet& set, int64_t line, const std::string& reason,
                            const std::string& detail) {
  if (set.options.dropped_report.empty()) return;
  reported_.emplace_back(
      line, fmt::format("{}\t{}:{}\t{}\t{}\n", set.name, set.files[file_].source, line, reason, detail));
}

CorpusRows PairBlock::rows() const {
  return rows_of(source_, target_, weights_);
}

std::string PairBlock::report() const {
  std::string text;
  for (const auto& [line, entry] : reported_) text += entry;
  return text;
}

void add(PrepareCounts& sum, const PrepareCounts& counts) {
  for (int64_t PrepareCounts::*const count :
       {&PrepareCounts::read, &PrepareCounts::kept, &PrepareCounts::empty, &PrepareCounts::overlap,
        &PrepareCounts::too_long, &PrepareCounts::bad_ratio, &PrepareCounts::duplicate,
        &PrepareCounts::near_duplicate, &PrepareCounts::repaired_crlf, &PrepareCounts::repaired_nul,
        &PrepareCounts::repaired_bom, &PrepareCounts::source_tokens, &PrepareCounts::target_tokens,
        &PrepareCounts::unknown_tokens}) {
    sum.*count += counts.*count;
  }
  sum.weights += counts.weights;
  add_characters(sum.unknown_characters, counts.unknown_characters);
}

}  // namespace ventris::data
