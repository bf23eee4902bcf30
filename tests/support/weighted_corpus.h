// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/corpus_writer.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file to another one, as parts with their names and their ends among the
/// training pairs, and with weights, if there are any. Returns its path.
inline std::string copy_corpus(const std::string& corpus, const std::string& path,
                               const std::vector<std::pair<std::string, int64_t>>& parts,
                               const std::function<float(int64_t pair)>& weight = {}) {
  const data::Corpus from(corpus);
  data::CorpusWriter writer(path, from.tokenizers(), {.weights = weight != nullptr, .text = false});
  const auto add = [&](const data::SentencePairs& pairs, int64_t i, bool valid) {
    data::CorpusPairs pair;
    pair.source.add(pairs.source[i]);
    pair.target.add(pairs.target[i]);
    if (valid) pair.target.add_text(from.valid_reference(i));
    if (weight && !valid) pair.weights = {weight(i)};
    valid ? writer.add_valid(pair) : writer.add_train(pair);
  };
  int64_t pair = 0;
  for (const auto& [name, end] : parts) {
    writer.begin_part(name);
    for (; pair < end; ++pair) add(from.train(), pair, false);
    writer.end_part("{}");
  }
  for (pair = 0; pair < from.valid().size(); ++pair) add(from.valid(), pair, true);
  writer.commit();
  return path;
}

inline std::string write_weighted_corpus(const std::string& corpus, const std::string& path,
                                         const std::function<float(int64_t pair)>& weight) {
  return copy_corpus(corpus, path, {{"train", data::Corpus(corpus).train().size()}}, weight);
}

}  // namespace ventris::testing
