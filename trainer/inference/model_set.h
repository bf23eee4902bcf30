// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/search/beam_search.h"
#include "trainer/checkpoint/weights.h"

namespace ventris {

/// One model, or several that work together as an ensemble.
class ModelSet {
 public:
  /// Each of `files` is an argument of load_model(); products are computed in `precision`, int8 only on the
  /// CPU. Throws Error(kBadConfiguration) naming the first difference unless all have the same vocabulary.
  ModelSet(Context& context, const std::vector<std::string>& files, Packing precision);

  const data::TokenizerPair& tokenizers() const { return *models_[0]->tokenizers; }
  /// Views of the models, valid during the lifetime of this object.
  std::vector<SearchModel> search_models() const;
  /// Maximum tokens of a sentence, in every model, without the end mark.
  size_t longest_sentence() const;
  /// For each model the number of checkpoints of which it is the mean.
  std::vector<int64_t> averaged_checkpoints() const;
  /// XXH3-128 of the bytes of each file, which is read again for it.
  std::vector<std::string> file_digests() const;
  /// The files that were read, separated by commas.
  std::string path() const;

 private:
  std::vector<std::unique_ptr<LoadedModel>> models_;
};

}  // namespace ventris
