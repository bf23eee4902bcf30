// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "trainer/train_options.h"

namespace ventris {

class ValidationSets;

/// Steps of an epoch if every batch were full on the side that fills it first. Below 1 if a batch is larger
/// than the corpus.
double steps_per_epoch(const TrainOptions& options, const data::SentencePairs& pairs);

/// Warnings of probable mistakes in the corpus or its batches, each with a remedy.
std::vector<std::string> corpus_warnings(const TrainOptions& options, const data::Corpus& corpus,
                                         const ValidationSets& sets);

/// Whether both sides of `valid` resemble the other side of `train`, by token frequencies. False if both
/// sides are similar.
bool sides_are_swapped(const data::SentencePairs& train, const data::SentencePairs& valid, int vocab_size);

}  // namespace ventris
