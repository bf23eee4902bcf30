// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/corpus.h"
#include "data/corpus_writer.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file to another one, with weights of the training pairs. Returns its path.
inline std::string write_weighted_corpus(const std::string& corpus, const std::string& path,
                                         const std::function<float(int64_t pair)>& weight) {
  const data::Corpus from(corpus);
  data::CorpusWriter writer(path, from.tokenizers(), {.weights = true, .text = false});
  const auto pair_of = [](const data::SentencePairs& pairs, int64_t i) {
    data::CorpusPairs pair;
    pair.source.add(pairs.source[i]);
    pair.target.add(pairs.target[i]);
    return pair;
  };
  writer.begin_part("train");
  for (int64_t i = 0; i < from.train().size(); ++i) {
    data::CorpusPairs pair = pair_of(from.train(), i);
    pair.weights = {weight(i)};
    writer.add_train(pair);
  }
  writer.end_part("{}");
  for (int64_t i = 0; i < from.valid().size(); ++i) {
    data::CorpusPairs pair = pair_of(from.valid(), i);
    pair.target.add_text(from.valid_reference(i));
    writer.add_valid(pair);
  }
  writer.commit();
  return path;
}

}  // namespace ventris::testing
