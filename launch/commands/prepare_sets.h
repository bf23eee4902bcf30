// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/prepare.h"

namespace ventris {

/// What the command line says about the corpora of `prepare`: the values of the options of these names, one
/// after the other.
struct SetOptions {
  std::vector<std::string> train_sets;
  std::vector<std::string> train_set;  // NAME SRC TGT
  std::vector<std::string> train_tsv;  // NAME FILE
  std::vector<std::string> valid_sets;
  std::vector<std::string> valid_set;   // NAME SRC TGT
  std::vector<std::string> source_tag;  // NAME TAG, and so on
  std::vector<std::string> target_tag;
  std::vector<std::string> weights;
};

/// The corpora, in the order --train-sets (as the corpus "train"), --train-set, --train-tsv. Throws Error
/// kUsage for values that are no such groups, and for a name that no corpus has.
std::vector<data::TrainingCorpus> training_corpora(const SetOptions& options);
std::vector<data::PairFiles> validation_files(const SetOptions& options);
std::vector<data::NamedValidSet> named_valid_sets(const SetOptions& options);

}  // namespace ventris
