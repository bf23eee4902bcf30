#include "data/prepare_append.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "data/corpus_writer.h"
#include "data/error.h"

namespace ventris::data {

namespace {

constexpr int64_t kPairsAtOnce = 4096;

/// One side of some pairs.
struct Side {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;
  std::string text;
  std::vector<int64_t> text_lengths;

  void add(const TokenView& ids) {
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  void add_text(std::string_view line) {
    text.append(line);
    text_lengths.push_back(static_cast<int64_t>(line.size()));
  }
};

CorpusRows rows_of(const Side& source, const Side& target, const std::vector<float>& weights) {
  return {.source_tokens = source.tokens,
          .target_tokens = target.tokens,
          .source_lengths = source.lengths,
          .target_lengths = target.lengths,
          .weights = weights,
          .source_text = source.text,
          .target_text = target.text,
          .source_text_lengths = source.text_lengths,
          .target_text_lengths = target.text_lengths};
}

void write_part(CorpusWriter& writer, const Corpus& corpus, const CorpusPart& part) {
  const SentencePairs& pairs = corpus.train();
  writer.begin_part(part.name);
  for (int64_t first = part.first; first < part.first + part.pairs; first += kPairsAtOnce) {
    Side source;
    Side target;
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

}  // namespace

AppendedCorpus::AppendedCorpus(const PrepareOptions& options) : corpus_(options.append_to) {
  const std::string& path = options.append_to;
  for (const CorpusPart& part : corpus_.parts()) {
    const bool is_taken = std::ranges::any_of(
        options.corpora, [&](const TrainingCorpus& corpus) { return corpus.name == part.name; });
    if (is_taken) {
      fail(ErrorKind::kUsage, "{} already has a corpus {} of {} pairs; give the new one another name", path,
           part.name, part.pairs);
    }
  }
  if (!options.tokenizer_model.empty()) {
    fail(ErrorKind::kUsage,
         "{} has its tokenizer, with which the text is tokenized that is added; leave out {}", path,
         options.tokenizer_model);
  }
  if (!options.valid.empty() && corpus_.valid().size() > 0) {
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

void AppendedCorpus::write_parts(CorpusWriter& writer) const {
  for (const CorpusPart& part : corpus_.parts()) write_part(writer, corpus_, part);
}

void AppendedCorpus::write_valid(CorpusWriter& writer) const {
  const SentencePairs& pairs = corpus_.valid();
  for (int64_t i = 0; i < pairs.size(); ++i) {
    Side source;
    Side target;
    source.add(pairs.source[i]);
    target.add(pairs.target[i]);
    target.add_text(corpus_.valid_reference(i));
    writer.add_valid(rows_of(source, target, {}));
  }
}

void AppendedCorpus::add_valid_lines(KeySet& keys, Likeness likeness) const {
  for (int64_t i = 0; i < corpus_.valid().size(); ++i) {
    const TokenView ids = corpus_.valid().source[i];
    keys.find_or_add(key_of_line(corpus_.valid_reference(i), likeness));
    keys.find_or_add(key_of_line(corpus_.tokenizer().decode({ids.begin(), ids.end()}), likeness));
  }
}

}  // namespace ventris::data
