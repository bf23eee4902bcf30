// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_checks.h"

#include <fmt/format.h>

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
#include "data/io/atomic_file.h"
#include "data/io/file_io.h"
#include "data/text/tokenizer_training.h"

namespace ventris::data {

namespace {

namespace fs = std::filesystem;

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
    std::error_code error;  // of a file that does not exist
    if (path != "-" && !fs::is_other(fs::status(path, error))) continue;
    fail(ErrorKind::kUsage, "parallel text is read twice, from files, but {} is {}; give a file", path,
         path == "-" ? "the standard input" : "a pipe or a device");
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

std::vector<std::string> paths_of(const std::vector<PairFiles>& files) {
  std::vector<std::string> paths;
  for (const PairFiles& pair : files) {
    paths.push_back(pair.source);
    if (!pair.target.empty()) paths.push_back(pair.target);
  }
  return paths;
}

std::vector<PairFiles> all_valid_files(const PrepareOptions& options) {
  std::vector<PairFiles> files = options.valid;
  for (const NamedValidSet& set : options.valid_sets) files.push_back(set.files);
  return files;
}

void check_options(const PrepareOptions& options) {
  check_corpora(options);
  check_inputs(options);
  if (!(options.max_length_ratio == 0.0 || options.max_length_ratio >= 1.0)) {
    fail(ErrorKind::kBadConfiguration,
         "the length ratio is {}; it must be at least 1, or 0 to keep all pairs", options.max_length_ratio);
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
  check_replaceable(options.output);
  const AtomicFile creatable(options.output);  // before the text is read
}

}  // namespace ventris::data
