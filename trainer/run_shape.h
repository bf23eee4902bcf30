#pragma once

#include "data/batches.h"
#include "data/corpus.h"
#include "model/transformer.h"
#include "trainer/resume.h"
#include "trainer/train_options.h"

/// What the options, the corpus and the ranks make of a training run: its micro-batches and its model.

namespace ventris {

/// Micro-batches of a global batch: options.logical_shards; else those that the run began with, if it goes
/// on; else so many that each has at most micro_batch_tokens of a side: the smallest multiple of the ranks,
/// or, where the reduction is reproducible, the smallest power of two from 8 on.
int resolved_shards(const TrainOptions& options, const ResumePoint& from, int ranks, Device device);
/// Takes from the corpus what the model's shape needs of it. Throws Error(kBadConfiguration) where they do
/// not suit each other.
void complete_model(TransformerConfig& model, const TrainOptions& options, const data::Corpus& corpus);
/// Room for every micro-batch of training; and for those of validation, too.
MicroBatchCapacity training_capacity(const data::BatchSource& batches);
MicroBatchCapacity model_capacity(const data::BatchSource& batches, const data::Corpus& corpus,
                                  Device device);

}  // namespace ventris
