// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/valid_text.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;

/// A set of sentence pairs to validate on.
struct ValidationSet {
  std::string name;
  data::SentencePairs pairs;
  std::function<std::string(int64_t pair)> reference;  // the raw line
  std::function<std::string(int64_t pair)> source;     // likewise; as its tokens spell it if it was not kept
  double weight;       // in the mean that decides which model is the best; 0: none
  std::string digest;  // of text that is not of the corpus file; "" otherwise
};

/// A name and a weight of --valid-best.
struct SetWeight {
  std::string name;
  double weight;
};
/// "news" or "news=2,it=1". Throws Error(kBadConfiguration) for other text.
std::vector<SetWeight> parse_valid_best(const std::string& text);

/// Throws Error(kBadConfiguration) if --valid-set is not groups of NAME SRC TGT, and for a name that is none.
void check_valid_sets(const TrainOptions& options);

/// Whether a run with these options has pairs to validate on.
bool has_validation_pairs(const TrainOptions& options, const data::Corpus& corpus);

/// The validation sets of a run: those of the corpus file, then those of --valid-set.
class ValidationSets {
 public:
  /// Must be called on all ranks, whatever their options, as they need not have been compared; rank 0 reads
  /// the text for all. The corpus must outlive the object. Throws Error(kBadConfiguration) for a name that is
  /// there twice or, in --valid-best, not at all, and the errors of data/valid_text.h.
  ValidationSets(const TrainOptions& options, const data::Corpus& corpus, Communicator& communicator);
  ValidationSets(const ValidationSets&) = delete;
  ValidationSets& operator=(const ValidationSets&) = delete;

  bool empty() const { return sets_.empty(); }
  const std::vector<ValidationSet>& all() const { return sets_; }
  /// Those with a weight, in order. One of them, unless all are empty.
  const std::vector<const ValidationSet*>& deciding() const { return deciding_; }
  /// Of all sets.
  int64_t pairs() const;
  /// Up to 1000 references of the sets that decide.
  std::vector<std::string> first_references() const;
  /// A text that is equal for sets with comparable results: "" if the first set of the corpus decides.
  std::string label() const;

 private:
  void add_corpus(const data::Corpus& corpus);
  void add_text(const TrainOptions& options, const data::Corpus& corpus, Communicator& communicator);
  void set_weights(const TrainOptions& options);

  std::vector<ValidationSet> sets_;
  std::vector<const ValidationSet*> deciding_;
  std::vector<std::unique_ptr<const data::ValidText>> texts_;
};

}  // namespace ventris
