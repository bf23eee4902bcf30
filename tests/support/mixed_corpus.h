// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "data/corpus.h"
#include "data/corpus_writer.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file as two corpora, "clean", the first 80, and "bt", the others, and returns
/// the path.
inline std::string make_mixed_corpus(const std::string& of, const std::string& path) {
  const data::Corpus corpus(of);
  data::CorpusWriter writer(path, corpus.tokenizers(), {.weights = false, .text = false});
  const auto add = [&](const data::SentencePairs& pairs, int64_t i, bool valid) {
    data::CorpusPairs pair;
    pair.source.add(pairs.source[i]);
    pair.target.add(pairs.target[i]);
    if (valid) pair.target.add_text(corpus.valid_reference(i));
    valid ? writer.add_valid(pair) : writer.add_train(pair);
  };
  constexpr int64_t kClean = 80;
  writer.begin_part("clean");
  for (int64_t i = 0; i < kClean; ++i) add(corpus.train(), i, false);
  writer.end_part("{}");
  writer.begin_part("bt");
  for (int64_t i = kClean; i < corpus.train().size(); ++i) add(corpus.train(), i, false);
  writer.end_part("{}");
  for (int64_t i = 0; i < corpus.valid().size(); ++i) add(corpus.valid(), i, true);
  writer.commit();
  return path;
}

}  // namespace ventris::testing
