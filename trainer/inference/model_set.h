#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/search/beam_search.h"
#include "trainer/files/weights.h"

namespace ventris {

/// One model, or several that work together as an ensemble.
class ModelSet {
 public:
  /// Each of `files` is what load_model() takes; products are computed in `precision`, int8 on the CPU alone.
  /// Throws Error(kBadConfiguration) naming the first difference unless all have the same vocabulary.
  ModelSet(Context& context, const std::vector<std::string>& files, Packing precision);

  const data::Tokenizer& tokenizer() const { return *models_[0]->tokenizer; }
  /// Views of the models, which live as long as this.
  std::vector<SearchModel> search_models() const;
  /// Tokens that a sentence may have at most, in every model; the end mark comes after them.
  size_t longest_sentence() const;
  /// Of each model, how many checkpoints it is the mean of.
  std::vector<int64_t> averaged_checkpoints() const;
  /// XXH3-128 of the bytes of each file that was read, which is read again for it.
  std::vector<std::string> file_digests() const;
  /// The files that were read, separated by commas.
  std::string path() const;

 private:
  std::vector<std::unique_ptr<LoadedModel>> models_;
};

}  // namespace ventris
