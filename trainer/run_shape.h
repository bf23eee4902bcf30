// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/batches.h"
#include "data/corpus.h"
#include "data/sampled_text.h"
#include "model/transformer.h"
#include "trainer/checkpoint/resume_point.h"
#include "trainer/train_options.h"

/// The micro-batches and the model of a training run, derived from the options, the corpus and the ranks.

namespace ventris {

/// Rows of the longest training sentence of each side, with its mark.
struct LongestRows {
  int64_t source;
  int64_t target;
};
LongestRows longest_rows(const data::Corpus& corpus);

/// Micro-batches of a global batch: options.logical_shards if set; for a resumed run, those of its
/// checkpoint; otherwise the smallest multiple of the ranks (with the reproducible reduction the smallest
/// power of two from 8 on) with which each has at most micro_batch_tokens of a side. If the reproducible
/// reduction has more ranks than these, the largest power of two with which each has at least 512, whatever
/// the number of ranks. If the longest sentences do not fit in one of so many, the reproducible reduction
/// takes half as many, and so on, as far as micro_batch_tokens permits.
/// Throws Error(kBadConfiguration) if micro_batch_tokens are fewer than the rows of the longest sentence.
int resolved_shards(const TrainOptions& options, const ResumePoint& from, int ranks, Device device,
                    const LongestRows& longest);
/// Replaces --begin-embedding auto: by that of a resumed run (`recorded`, "" for a new one), otherwise by
/// learned, or none if the vocabulary has no begin mark; then returns a message that says so.
std::string resolve_begin_embedding(TrainOptions& options, const std::string& recorded,
                                    const data::Corpus& corpus);
/// Replaces --tie auto, by that of a resumed run (`recorded`, "" for a new one) if the corpus permits it,
/// otherwise by all with one vocabulary and decoder with two, and sets that of the model.
void resolve_tie(TrainOptions& options, const std::string& recorded, const data::Corpus& corpus);
/// Sets the parts of the model's shape that depend on the corpus. Throws Error(kBadConfiguration) if they do
/// not fit.
void complete_model(TransformerConfig& model, const TrainOptions& options, const data::Corpus& corpus);
/// Subword regularisation of the training pairs; null without. Errors: those of data::SampledText.
std::shared_ptr<const data::SampledText> sampled_text(const TrainOptions& options,
                                                      const data::Corpus& corpus);
/// The batch sizes of validation. Results depend on them only within rounding.
struct ValidationRows {
  int64_t loss;        // of a side, or the longest sentence if that is longer
  int64_t search = 0;  // BeamSearchOptions::batch_rows
};

/// Fixed for a kind of device, so that results depend on neither ranks nor the batches of training.
inline ValidationRows validation_rows_of(Device device) {
  return {.loss = device == Device::kCpu ? 1024 : 4096};
}

MicroBatchCapacity validation_capacity(const data::Corpus& corpus, ValidationRows rows);

/// Capacity for every micro-batch of training; and also for those of validation.
MicroBatchCapacity training_capacity(const data::BatchSource& batches);
MicroBatchCapacity model_capacity(const data::BatchSource& batches, const data::Corpus& corpus,
                                  Device device);

}  // namespace ventris
