// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_append.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/corpus_writer.h"
#include "data/error.h"
#include "data/prepare_input.h"

namespace ventris::data {

namespace {

constexpr int64_t kPairsAtOnce = 4096;

void write_part(CorpusWriter& writer, const Corpus& corpus, const CorpusPart& part) {
  const SentencePairs& pairs = corpus.train();
  writer.begin_part(part.name);
  for (int64_t first = part.first; first < part.first + part.pairs; first += kPairsAtOnce) {
    CorpusSide source;
    CorpusSide target;
    std::vector<float> weights;
    for (int64_t i = first; i < std::min(first + kPairsAtOnce, part.first + part.pairs); ++i) {
      source.add(pairs.source[i]);
      target.add(pairs.target[i]);
      weights.push_back(pairs.weight(i));
      if (!corpus.has_text()) continue;
      source.add_text(corpus.train_source_text(i));
      target.add_text(corpus.train_target_text(i));
    }
    writer.add_train(rows_of(source, target, weights));
  }
  writer.end_part(part.details);
}

/// The file, locked if it will be replaced; a file system without locks has none.
FileHandle opened(const PrepareOptions& options) {
  const std::string& path = options.append_to;
  FileHandle file = open_to_read(path);
  if (!file.valid()) fail_opening(path, errno);
  std::error_code error;  // of an output that does not exist
  if (!std::filesystem::equivalent(path, options.output, error)) return file;
  if (::flock(file.fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(ErrorKind::kUnavailable, "{}: another process appends to it; start again when that has ended", path);
  return file;
}

}  // namespace

AppendedCorpus::AppendedCorpus(const PrepareOptions& options)
    : file_(opened(options)), corpus_(options.append_to) {
  const std::string& path = options.append_to;
  check_still_there();
  for (const CorpusPart& part : corpus_.parts()) {
    const bool is_taken = std::ranges::any_of(
        options.corpora, [&](const TrainingCorpus& corpus) { return corpus.name == part.name; });
    if (is_taken) {
      fail(ErrorKind::kUsage, "{} already has a corpus {} of {} pairs; give the new one another name", path,
           part.name, part.pairs);
    }
  }
  if (!options.tokenizer_model.empty()) {  // or those of both sides
    fail(ErrorKind::kUsage,
         "{} has its tokenizer, with which the text is tokenized that is added; leave out {}", path,
         options.tokenizer_model);
  }
  if (!all_valid_files(options).empty() && corpus_.valid().size() > 0) {
    fail(ErrorKind::kUsage, "{} has {} validation pairs, which stay; leave out the files to validate on",
         path, corpus_.valid().size());
  }
  if (options.keep_text && !corpus_.has_text()) {
    fail(ErrorKind::kUsage,
         "{} was prepared without its text, so the text of what is added cannot be kept alone; "
         "leave out --keep-text, or prepare all of it again with --keep-text",
         path);
  }
}

void AppendedCorpus::check_still_there() const {
  struct stat ours {
  }, now{};
  if (::fstat(file_.fd(), &ours) == 0 && ::stat(corpus_.path().c_str(), &now) == 0 &&
      ours.st_dev == now.st_dev && ours.st_ino == now.st_ino)
    return;
  fail(ErrorKind::kUnavailable,
       "{}: it was replaced while text was added to it; nothing was written. Start again, to add to the new "
       "file",
       corpus_.path());
}

void AppendedCorpus::write_parts(CorpusWriter& writer) const {
  for (const CorpusPart& part : corpus_.parts()) write_part(writer, corpus_, part);
}

void AppendedCorpus::write_valid(CorpusWriter& writer) const {
  for (size_t set = 0; set < corpus_.valid_sets().size(); ++set) {
    const auto& [name, pairs] = corpus_.valid_sets()[set];
    const bool has_source = name != kUnnamedValidSet;
    if (has_source) writer.begin_valid_set(name);
    for (int64_t i = 0; i < pairs.size(); ++i) {
      CorpusSide source;
      CorpusSide target;
      source.add(pairs.source[i]);
      target.add(pairs.target[i]);
      if (has_source) source.add_text(corpus_.valid_source(i, set));
      target.add_text(corpus_.valid_reference(i, set));
      writer.add_valid(rows_of(source, target, {}));
    }
  }
}

void AppendedCorpus::add_valid_lines(KeySet& keys, Likeness likeness) const {
  for (size_t set = 0; set < corpus_.valid_sets().size(); ++set) {
    const auto& [name, pairs] = corpus_.valid_sets()[set];
    for (int64_t i = 0; i < pairs.size(); ++i) {
      keys.find_or_add(key_of_line(corpus_.valid_reference(i, set), likeness));
      if (name != kUnnamedValidSet) keys.find_or_add(key_of_line(corpus_.valid_source(i, set), likeness));
    }
  }
}

}  // namespace ventris::data
