#pragma once

#include <string>
#include <vector>

#include "data/corpus.h"
#include "trainer/train_options.h"

namespace ventris {

/// Steps of an epoch, if every batch were full on the side that fills it first. Below 1 where a batch is
/// larger than the corpus.
double steps_per_epoch(const TrainOptions& options, const data::SentencePairs& pairs);

/// What in the corpus, or in the batches of it, is probably not meant, in words that say what to change.
std::vector<std::string> corpus_warnings(const TrainOptions& options, const data::Corpus& corpus);

/// Whether both sides of `valid` look like the other side of `train`, by how often tokens come. Not where
/// both sides are of one kind.
bool sides_are_swapped(const data::SentencePairs& train, const data::SentencePairs& valid, int vocab_size);

}  // namespace ventris
