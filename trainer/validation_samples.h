// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/context.h"
#include "data/text/tokenizer_pair.h"
#include "model/parameters.h"
#include "model/transformer_parameters.h"
#include "trainer/files/event_file.h"
#include "trainer/train_options.h"
#include "trainer/validation_sets.h"

namespace ventris {

/// The first pairs of a validation set that suit a page: their translations, and the attention of the
/// decoder to the source for the first of them with its reference as the target, so that pictures of
/// different steps can be compared.
class ValidationSamples {
 public:
  static constexpr size_t kSentences = 4;
  static constexpr int kMaxTokens = 40;  // of a side

  /// The references must outlive the object.
  ValidationSamples(Context& context, const data::TokenizerPair& tokenizers, const ValidationSet& set,
                    const TrainOptions& options);

  /// Translates on this rank alone, with the beam of the validation. Texts "samples/1" to "samples/4", and
  /// images "attention/layer_1" and so on, the mean over the heads of a layer of the decoder, dark where the
  /// weight is large. Nothing for a set without such pairs.
  Event at_step(int64_t step, ParameterStore& store, const TransformerIds& ids);

 private:
  void add_texts(ParameterStore& store, const TransformerIds& ids, Event& event);
  void add_images(ParameterStore& store, const TransformerIds& ids, Event& event);

  Context& context_;
  const data::TokenizerPair& tokenizers_;
  const ValidationSet& set_;
  const TrainOptions& options_;
  std::vector<int64_t> pairs_;
};

}  // namespace ventris
