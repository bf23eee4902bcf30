#include "data/pair_block.h"

#include <algorithm>

#include "data/error.h"
#include "data/pair_reader.h"
#include "data/text/cached_encoder.h"
#include "data/text/text_reader.h"

namespace ventris::data {

namespace {

constexpr size_t kBlockPairs = 4096;
constexpr size_t kBlockBytes = size_t{1} << 20;

void add_lengths(std::vector<int32_t>& tokens, std::vector<int64_t>& lengths,
                 const std::vector<int32_t>& ids) {
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  lengths.push_back(static_cast<int64_t>(ids.size()));
}

std::string join_reasons(bool crlf, bool nul) {
  return crlf && nul ? "repaired_crlf,repaired_nul" : crlf ? "repaired_crlf" : "repaired_nul";
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
  std::string source_line;
  std::string target_line;
  // A block is from one pair of files, so that file and first line locate all its lines.
  while (source.size() < kBlockPairs && source.bytes() + target.bytes() < kBlockBytes) {
    if (reader.next(source_line, target_line)) {
      if (source.size() == 0) {
        file = reader.file();
        first_line = reader.line_number();
      }
      source.add(source_line);
      target.add(target_line);
    } else if (source.size() > 0 || !reader.next_files()) {
      break;
    }
  }
  return source.size() > 0;
}

void PairBlock::encode(CachedEncoder& encoder, int32_t unknown_id, const PrepareOptions& options,
                       const PairSet& set) {
  const std::string& source_path = set.source_paths[file];
  const std::string& target_path = set.target_paths[file];
  const auto max_length = static_cast<size_t>(options.max_length);
  std::string source_scratch;
  std::string target_scratch;
  std::vector<int32_t> source_ids;
  std::vector<int32_t> target_ids;
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t line = first_line + static_cast<int64_t>(i);
    const auto report_line = [&](const std::string& reason, const std::string& detail) {
      if (!options.dropped_report.empty()) {
        report += fmt::format("{}\t{}:{}\t{}\t{}\n", set.name, source_path, line, reason, detail);
      }
    };
    const CleanLine clean_source = clean_line(source[i], source_scratch, source_path, line);
    const CleanLine clean_target = clean_line(target[i], target_scratch, target_path, line);
    encoder.encode(clean_source.text, source_ids);
    encoder.encode(clean_target.text, target_ids);
    ++counts.read;
    const size_t shorter = std::min(source_ids.size(), target_ids.size());
    const size_t longer = std::max(source_ids.size(), target_ids.size());
    const auto lengths = [&] {
      return fmt::format("{} source and {} target tokens", source_ids.size(), target_ids.size());
    };
    if (shorter == 0) {
      ++counts.empty;
      report_line("empty", lengths());
      continue;
    }
    if (longer > max_length) {
      ++counts.too_long;
      if (set.drop) {
        report_line("too_long", fmt::format("{}, at most {}", lengths(), max_length));
        continue;
      }
      report_line("cut", fmt::format("{}, at most {}", lengths(), max_length));
      source_ids.resize(std::min(source_ids.size(), max_length));
      target_ids.resize(std::min(target_ids.size(), max_length));
    }
    if (set.drop && options.max_length_ratio > 0.0 &&
        static_cast<double>(longer + 1) > options.max_length_ratio * static_cast<double>(shorter + 1)) {
      ++counts.bad_ratio;
      report_line("bad_ratio", fmt::format("{}, a ratio of at most {}", lengths(), options.max_length_ratio));
      continue;
    }
    const bool crlf = clean_source.repaired_crlf || clean_target.repaired_crlf;
    const bool nul = clean_source.repaired_nul || clean_target.repaired_nul;
    if (crlf || nul) {
      report_line(join_reasons(crlf, nul), "kept");
    }
    counts.repaired_crlf += crlf ? 1 : 0;
    counts.repaired_nul += nul ? 1 : 0;
    ++counts.kept;
    for (const auto& [ids, text] :
         {std::pair(&source_ids, clean_source.text), {&target_ids, clean_target.text}}) {
      if (std::find(ids->begin(), ids->end(), unknown_id) != ids->end())
        encoder.tokenizer().count_unknown(text, counts.unknown_characters);
    }
    add_lengths(source_tokens, source_lengths, source_ids);
    add_lengths(target_tokens, target_lengths, target_ids);
    if (!set.drop) {
      reference_text += clean_target.text;
      reference_lengths.push_back(static_cast<int64_t>(clean_target.text.size()));
    }
  }
  counts.source_tokens = static_cast<int64_t>(source_tokens.size());
  counts.target_tokens = static_cast<int64_t>(target_tokens.size());
  counts.unknown_tokens = std::count(source_tokens.begin(), source_tokens.end(), unknown_id) +
                          std::count(target_tokens.begin(), target_tokens.end(), unknown_id);
}

void add(PrepareCounts& sum, const PrepareCounts& counts) {
  sum.read += counts.read;
  sum.kept += counts.kept;
  sum.empty += counts.empty;
  sum.too_long += counts.too_long;
  sum.bad_ratio += counts.bad_ratio;
  sum.repaired_crlf += counts.repaired_crlf;
  sum.repaired_nul += counts.repaired_nul;
  sum.source_tokens += counts.source_tokens;
  sum.target_tokens += counts.target_tokens;
  sum.unknown_tokens += counts.unknown_tokens;
  for (const auto& [character, count] : counts.unknown_characters) sum.unknown_characters[character] += count;
}

}  // namespace ventris::data
