// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/corpus_writer.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file as two corpora, "clean", the first 80, and "bt", the others, and returns
/// the path.
inline std::string make_mixed_corpus(const std::string& of, const std::string& path) {
  const data::Corpus corpus(of);
  data::CorpusWriter writer(path, corpus.tokenizers(), {.weights = false, .text = false});
  const auto add = [&](const data::SentencePairs& pairs, int64_t i, bool valid) {
    const std::vector<int32_t> source(pairs.source[i].begin(), pairs.source[i].end());
    const std::vector<int32_t> target(pairs.target[i].begin(), pairs.target[i].end());
    const std::vector<int64_t> source_length = {std::ssize(source)};
    const std::vector<int64_t> target_length = {std::ssize(target)};
    const std::string text = valid ? corpus.valid_reference(i) : "";
    const std::vector<int64_t> text_length = {std::ssize(text)};
    const data::CorpusRows rows{.source_tokens = source,
                                .target_tokens = target,
                                .source_lengths = source_length,
                                .target_lengths = target_length,
                                .weights = {},
                                .source_text = {},
                                .target_text = text,
                                .source_text_lengths = {},
                                .target_text_lengths = text_length};
    valid ? writer.add_valid(rows) : writer.add_train(rows);
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
