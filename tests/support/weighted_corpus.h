// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/corpus_writer.h"

namespace ventris::testing {

/// Writes the pairs of a corpus file to another one, with weights of the training pairs. Returns its path.
inline std::string write_weighted_corpus(const std::string& corpus, const std::string& path,
                                         const std::function<float(int64_t pair)>& weight) {
  const data::Corpus from(corpus);
  data::CorpusWriter writer(path, from.tokenizers(), {.weights = true, .text = false});
  const auto rows_of = [](const data::SentencePairs& pairs, int64_t pair, const auto& take) {
    const std::vector<int32_t> source(pairs.source[pair].begin(), pairs.source[pair].end());
    const std::vector<int32_t> target(pairs.target[pair].begin(), pairs.target[pair].end());
    const std::vector<int64_t> lengths = {std::ssize(source), std::ssize(target)};
    data::CorpusRows rows;
    rows.source_tokens = source;
    rows.target_tokens = target;
    rows.source_lengths = {&lengths[0], 1};
    rows.target_lengths = {&lengths[1], 1};
    take(rows);
  };
  writer.begin_part("train");
  for (int64_t pair = 0; pair < from.train().size(); ++pair) {
    const float its_weight = weight(pair);
    rows_of(from.train(), pair, [&](data::CorpusRows& rows) {
      rows.weights = {&its_weight, 1};
      writer.add_train(rows);
    });
  }
  writer.end_part("{}");
  for (int64_t pair = 0; pair < from.valid().size(); ++pair) {
    const std::string reference = from.valid_reference(pair);
    const int64_t bytes = std::ssize(reference);
    rows_of(from.valid(), pair, [&](data::CorpusRows& rows) {
      rows.target_text = reference;
      rows.target_text_lengths = {&bytes, 1};
      writer.add_valid(rows);
    });
  }
  writer.commit();
  return path;
}

}  // namespace ventris::testing
