// SPDX-License-Identifier: Apache-2.0
// Writes a corpus of generated ids, for measurements of starts and of reading: large_corpus CORPUS PAIRS
// OUTPUT. The tokenizer and the validation pairs are those of CORPUS; a training sentence has 8 to 51 random
// tokens.

#include <fmt/core.h>

#include <cstdint>
#include <cstdlib>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/corpus_writer.h"
#include "data/files/hdf5_process.h"

namespace ventris::data {
namespace {

struct Side {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;

  void clear() {
    tokens.clear();
    lengths.clear();
  }
  void add(std::mt19937_64& random, int32_t vocab_size) {
    constexpr uint64_t kShortest = 8;
    constexpr uint64_t kLengths = 44;
    constexpr uint64_t kMarks = 3;
    const uint64_t length = kShortest + random() % kLengths;
    for (uint64_t i = 0; i < length; ++i)
      tokens.push_back(
          static_cast<int32_t>(kMarks + random() % (static_cast<uint64_t>(vocab_size) - kMarks)));
    lengths.push_back(static_cast<int64_t>(length));
  }
  void add(const TokenView& sentence) {
    tokens.insert(tokens.end(), sentence.begin(), sentence.end());
    lengths.push_back(static_cast<int64_t>(sentence.size()));
  }
};

CorpusRows rows_of(const Side& source, const Side& target, const std::string& text,
                   const std::vector<int64_t>& text_lengths) {
  return {.source_tokens = source.tokens,
          .target_tokens = target.tokens,
          .source_lengths = source.lengths,
          .target_lengths = target.lengths,
          .weights = {},
          .source_text = {},
          .target_text = text,
          .source_text_lengths = {},
          .target_text_lengths = text_lengths};
}

void write(const std::string& from, int64_t pairs, const std::string& output) {
  constexpr int64_t kBlock = 4096;
  const Corpus corpus(from);
  const int32_t source_vocabulary = corpus.tokenizers().source().vocab_size();
  const int32_t target_vocabulary = corpus.tokenizers().target().vocab_size();
  CorpusWriter writer(output, corpus.tokenizers(), {.weights = false, .text = false});
  std::mt19937_64 random(1);
  Side source;
  Side target;
  writer.begin_part("generated");
  for (int64_t i = 1; i <= pairs; ++i) {
    source.add(random, source_vocabulary);
    target.add(random, target_vocabulary);
    if (i % kBlock != 0 && i != pairs) continue;
    writer.add_train(rows_of(source, target, {}, {}));
    source.clear();
    target.clear();
  }
  writer.end_part("{}");
  std::string text;
  std::vector<int64_t> text_lengths;
  for (int64_t i = 0; i < corpus.valid().size(); ++i) {
    source.add(corpus.valid().source[i]);
    target.add(corpus.valid().target[i]);
    text += corpus.valid_reference(i);
    text_lengths.push_back(std::ssize(corpus.valid_reference(i)));
  }
  writer.add_valid(rows_of(source, target, text, text_lengths));
  writer.commit();
  fmt::print("{}: {} pairs, digest {}\n", output, pairs, writer.digest());
}

}  // namespace
}  // namespace ventris::data

int main(int argc, char** argv) {
  const ventris::data::Hdf5Process reader;
  if (argc != 4) {
    fmt::print(stderr, "usage: large_corpus CORPUS PAIRS OUTPUT\n");
    return 64;
  }
  try {
    ventris::data::write(argv[1], std::atoll(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
