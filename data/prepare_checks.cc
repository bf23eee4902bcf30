// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/corpus.h"
#include "data/error.h"
#include "data/files/atomic_file.h"
#include "data/files/file_io.h"
#include "data/text/tokenizer_training.h"

namespace ventris::data {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> paths_of(const std::vector<PairFiles>& files) {
  std::vector<std::string> paths;
  for (const PairFiles& pair : files) {
    paths.push_back(pair.source);
    if (!pair.target.empty()) paths.push_back(pair.target);
  }
  return paths;
}

/// All files of text.
std::vector<std::string> text_inputs(const PrepareOptions& options) {
  std::vector<std::string> paths = paths_of(all_valid_files(options));
  for (const TrainingCorpus& corpus : options.corpora) {
    const std::vector<std::string> more = paths_of(corpus.files);
    paths.insert(paths.end(), more.begin(), more.end());
    if (!corpus.weights.empty()) paths.push_back(corpus.weights);
  }
  paths.insert(paths.end(), options.held_out.begin(), options.held_out.end());
  return paths;
}

/// Text is read more than once.
void check_inputs(const PrepareOptions& options) {
  for (const std::string& path : text_inputs(options)) {
    struct stat status {};
    const mode_t kind = ::stat(path.c_str(), &status) == 0 ? status.st_mode & S_IFMT : S_IFREG;
    const char* const what = path == "-"                           ? "the standard input"
                             : kind == S_IFIFO || kind == S_IFSOCK ? "a pipe"
                             : kind == S_IFCHR || kind == S_IFBLK  ? "a device"
                                                                   : nullptr;
    if (what == nullptr) continue;
    fail(ErrorKind::kUsage, "parallel text is read twice, from files, but {} is {}; give a file", path, what);
  }
}

/// No input may be overwritten, and the two outputs must differ.
void check_outputs(const PrepareOptions& options) {
  std::vector<std::string> inputs = text_inputs(options);
  inputs.push_back(options.tokenizer_model);
  inputs.push_back(options.source_tokenizer_model);
  for (const std::string& output : {options.output, options.dropped_report}) {
    if (output.empty()) continue;
    check_is_no_other_thing(output);
    for (const std::string& input : inputs) {
      std::error_code error;  // of a file that does not exist
      if (!fs::equivalent(input, output, error)) continue;
      fail(ErrorKind::kUsage, "{} is also an input; give another file", output);
    }
  }
  if (fs::path(options.output).lexically_normal() == fs::path(options.dropped_report).lexically_normal()) {
    fail(ErrorKind::kUsage, "{} cannot be the corpus file and the report of dropped pairs", options.output);
  }
}

/// Two tokenizers are given, or trained, for both sides.
void check_tokenizers(const PrepareOptions& options) {
  if (!options.source_tokenizer_model.empty() && options.tokenizer_model.empty()) {
    fail(ErrorKind::kUsage, "{} is the tokenizer of sources, but none of targets is given",
         options.source_tokenizer_model);
  }
  if (!options.tokenizer_model.empty() && options.source_vocab_size > 0) {
    fail(ErrorKind::kUsage,
         "a vocabulary of {} tokens is to be trained on the sources, but the tokenizer is that of {}",
         options.source_vocab_size, options.tokenizer_model);
  }
}

/// "valid" is the name of the validation pairs; the others have a meaning in a plan (data/mix_plan.h).
void check_name(const std::string& name) {
  constexpr std::array<std::string_view, 4> kReserved = {"valid", "until", "steps", "stalled"};
  if (!is_corpus_name(name) || std::ranges::find(kReserved, name) != kReserved.end()) {
    fail(
        ErrorKind::kUsage,
        "'{}' cannot be the name of a corpus or set: expected 1 to {} of the characters a-z, 0-9, _ and -, and none "
        "of {}",
        name, kLongestCorpusName, fmt::join(kReserved, ", "));
  }
}

void check_tag(const TrainingCorpus& corpus, const std::string& tag) {
  if (tag.find_first_of(" \t\r\n,") != std::string::npos || tag.find("\xe2\x96\x81") != std::string::npos) {
    fail(ErrorKind::kUsage,
         "the tag '{}' of {} cannot be one token: expected a word without spaces and commas, "
         "such as <bt>",
         tag, corpus.name);
  }
  if (is_mark(tag)) {
    fail(ErrorKind::kUsage,
         "the tag '{}' of {} is a mark of every vocabulary; give another word, such as <bt>", tag,
         corpus.name);
  }
}

void check_corpora(const PrepareOptions& options) {
  if (options.corpora.empty())
    fail(
        ErrorKind::kUsage,
        "no training files given; pass --train-sets SRC TGT, --train-set NAME SRC TGT or --train-tsv NAME FILE");
  std::set<std::string> names;
  for (const TrainingCorpus& corpus : options.corpora) {
    check_name(corpus.name);
    if (!names.insert(corpus.name).second) {
      fail(ErrorKind::kUsage, "two corpora have the name {}; give each its own", corpus.name);
    }
    if (corpus.files.empty()) fail(ErrorKind::kUsage, "the corpus {} has no files", corpus.name);
    check_tag(corpus, corpus.source_tag);
    check_tag(corpus, corpus.target_tag);
  }
  std::set<std::string> valid;
  for (const NamedValidSet& set : options.valid_sets) {
    check_name(set.name);
    if (!valid.insert(set.name).second)
      fail(ErrorKind::kUsage, "two validation sets have the name {}; give each its own", set.name);
  }
}

}  // namespace

std::vector<PairFiles> all_valid_files(const PrepareOptions& options) {
  std::vector<PairFiles> files = options.valid;
  for (const NamedValidSet& set : options.valid_sets) files.push_back(set.files);
  return files;
}

void check_options(const PrepareOptions& options) {
  check_corpora(options);
  check_inputs(options);
  check_tokenizers(options);
  if (options.output.empty()) {
    fail(ErrorKind::kUsage, "no output file given");
  }
  if (options.max_length < 1) {
    fail(ErrorKind::kBadConfiguration, "the longest sentence allowed has {} tokens; at least 1 is needed",
         options.max_length);
  }
  if (!(options.max_length_ratio == 0.0 || options.max_length_ratio >= 1.0)) {
    fail(ErrorKind::kBadConfiguration,
         "the length ratio is {}; it must be at least 1, or 0 to keep all pairs", options.max_length_ratio);
  }
  if (options.threads < 1) {
    fail(ErrorKind::kBadConfiguration, "at least 1 thread is needed, not {}", options.threads);
  }
  if (!options.held_out.empty() && options.drop_overlap == Likeness::kNone) {
    fail(ErrorKind::kUsage,
         "files of lines to leave out are given, but not how lines are compared: pass "
         "--drop-overlap exact or near");
  }
  if (options.drop_overlap != Likeness::kNone && options.held_out.empty() &&
      all_valid_files(options).empty()) {
    fail(ErrorKind::kUsage,
         "--drop-overlap compares with the lines of --valid-sets and --overlap-files; give one of them");
  }
  check_outputs(options);
  const AtomicFile creatable(options.output);  // before the text is read
}

void check_room(const PrepareOptions& options, int64_t input_bytes) {
  constexpr int64_t kBytesOfTextPerToken = 16;
  constexpr int64_t kWidthOfToken = 2;
  int64_t needed = input_bytes / kBytesOfTextPerToken * kWidthOfToken;
  if (options.keep_text) needed += input_bytes / 2;
  struct statvfs disk {};
  if (::statvfs(folder_of(options.output).c_str(), &disk) != 0) return;
  const uint64_t room = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
  if (room >= static_cast<uint64_t>(needed)) return;
  fail(ErrorKind::kIo,
       "{}: the corpus of {} bytes of text needs at least {} bytes.{} Free space, or give "
       "another disk",
       options.output, input_bytes, needed, room_at(options.output));
}

}  // namespace ventris::data
