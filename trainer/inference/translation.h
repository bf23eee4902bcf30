// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/context.h"
#include "model/search/beam_search.h"
#include "trainer/inference/model_set.h"

namespace ventris {

class Communicator;

struct Translation {
  std::vector<int32_t> tokens;  // without marks
  std::string text;
  double score = 0.0;
  double log_probability = 0.0;
};

/// The result of a line.
struct TranslatedLine {
  std::vector<int32_t> source;            // its tokens without marks, as translated
  size_t source_tokens = 0;               // before the line was truncated
  size_t prefix_tokens = 0;               // before the prefix was truncated
  std::vector<Translation> translations;  // best first
};

/// Text in, text out, on all ranks: tokenizes, truncates sentences and prefixes longer than
/// longest_sentence(), translates, detokenizes. A line without tokens gives one empty translation, for any
/// prefix.
class Translator {
 public:
  /// The references must outlive the object. The marks of `options` are those of the tokenizer.
  Translator(Context& context, Communicator& communicator, const ModelSet& models,
             const BeamSearchOptions& options);

  /// All ranks must call it with the same arguments. `prefixes`: the start of the translation of each line,
  /// or empty. `first_number`: the number of the first line in the whole input, a key of its random numbers.
  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines,
                                        const std::vector<std::string>& prefixes = {},
                                        uint64_t first_number = 0);

  /// BeamSearch::watch(), on the ranks that translate the lines.
  void watch(std::function<void(size_t line, const SearchStep& step)> watcher) {
    search_.watch(std::move(watcher));
  }
  const BeamSearchOptions& options() const { return search_.options(); }  // with the marks of the tokenizer

  size_t longest_sentence() const { return longest_sentence_; }

 private:
  Communicator& communicator_;
  const data::TokenizerPair& tokenizers_;
  const size_t longest_sentence_;
  BeamSearch search_;
};

}  // namespace ventris
