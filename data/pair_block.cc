// SPDX-License-Identifier: Apache-2.0
#include "data/pair_block.h"

#include <xxhash.h>

#include <algorithm>

#include "data/error.h"
#include "data/text/cached_encoder.h"
#include "data/text/pair_reader.h"
#include "data/text/text_reader.h"
#include "data/text/unicode.h"

namespace ventris::data {

std::string letters_of(std::string_view text) {
  std::u32string letters = unicode::lower(unicode::decode(text));
  std::erase_if(letters, [](char32_t c) {
    return unicode::is_space(c) || unicode::is_punctuation(c) || unicode::is_decimal_digit(c);
  });
  return letters.empty() ? std::string(text) : unicode::encode(letters);
}

TextKey key_of_pair(std::string_view source, std::string_view target, Likeness likeness) {
  const auto compared = [likeness](std::string_view text) {
    return likeness == Likeness::kNear ? letters_of(text) : std::string(text);
  };
  const std::string text = compared(source) + "\n" + compared(target);  // a line feed is in no line
  const XXH128_hash_t digest = XXH3_128bits(text.data(), text.size());
  return {digest.high64, digest.low64};
}

TextKey key_of_line(std::string_view line, Likeness likeness) {
  return key_of_pair(line, "", likeness);
}

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
    if (shorter == 0) {
      ++counts_.empty;
      continue;
    }
    if (set.held_out != nullptr && (set.held_out->contains(key_of_line(source.text, options.drop_overlap)) ||
                                    set.held_out->contains(key_of_line(target.text, options.drop_overlap)))) {
      ++counts_.overlap;
      continue;
    }
    if (longer > max_length) {
      ++counts_.too_long;
      if (set.drop) continue;
      source_ids.resize(std::min(source_ids.size(), max_length));
      target_ids.resize(std::min(target_ids.size(), max_length));
    }
    if (set.drop && options.max_length_ratio > 0.0 &&
        static_cast<double>(longer + 1) > options.max_length_ratio * static_cast<double>(shorter + 1)) {
      ++counts_.bad_ratio;
      continue;
    }
    pairs_.push_back({.key = set.drop && options.drop_duplicates != Likeness::kNone
                                 ? key_of_pair(source.text, target.text, options.drop_duplicates)
                                 : TextKey{},
                      .repaired_crlf = source.repaired_crlf || target.repaired_crlf,
                      .repaired_nul = source.repaired_nul || target.repaired_nul});
    kept_.weights.push_back(read_weights_[i]);
    kept_.source.add(source_ids);
    kept_.target.add(target_ids);
    if (keeps_text) {
      kept_.source.add_text(encoded_source);
      kept_.target.add_text(encoded_target);
    }
  }
}

void PairBlock::finish(KeySet* seen, const PairSet& set, const TokenizerPair& tokenizers) {
  if (seen != nullptr) {
    std::vector<bool> removed;
    for (const Pair& pair : pairs_) removed.push_back(!seen->insert(pair.key).second);
    int64_t& count =
        set.options.drop_duplicates == Likeness::kNear ? counts_.near_duplicate : counts_.duplicate;
    count = std::ranges::count(removed, true);
    if (count > 0) remove_pairs(removed);
  }
  counts_.kept = std::ssize(pairs_);
  counts_.repaired_crlf = std::ranges::count(pairs_, true, &Pair::repaired_crlf);
  counts_.repaired_nul = std::ranges::count(pairs_, true, &Pair::repaired_nul);
  for (const float weight : kept_.weights) counts_.weights += static_cast<double>(weight);
  const auto count_tokens = [&](const CorpusSide& side, const Tokenizer& tokenizer) {
    counts_.unknown_tokens += std::ranges::count(side.tokens, tokenizer.unknown_id());
    return std::ssize(side.tokens);
  };
  counts_.source_tokens = count_tokens(kept_.source, tokenizers.source());
  counts_.target_tokens = count_tokens(kept_.target, tokenizers.target());
}

void PairBlock::remove_pairs(const std::vector<bool>& removed) {
  for (CorpusSide* const side : {&kept_.source, &kept_.target}) {
    remove_pieces(side->tokens, side->lengths, removed);
    if (!side->text_lengths.empty()) remove_pieces(side->text, side->text_lengths, removed);
  }
  size_t kept = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    if (removed[i]) continue;
    pairs_[kept] = pairs_[i];
    kept_.weights[kept++] = kept_.weights[i];
  }
  pairs_.resize(kept);
  kept_.weights.resize(kept);
}

void add(PrepareCounts& sum, const PrepareCounts& counts) {
  for (const auto& [name, count] : kPrepareCounts) sum.*count += counts.*count;
  sum.weights += counts.weights;
}

}  // namespace ventris::data
