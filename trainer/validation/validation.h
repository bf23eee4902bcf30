// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "data/corpus.h"
#include "model/batch_stage.h"
#include "model/search/beam_search.h"
#include "model/transformer.h"
#include "trainer/run_metrics.h"
#include "trainer/run_shape.h"
#include "trainer/train_options.h"
#include "trainer/validation/validation_metric.h"
#include "trainer/validation/validation_sets.h"

namespace ventris {

class Communicator;

/// What a validation found.
struct Validated {
  ValidationMetrics metrics;
  std::vector<std::vector<std::string>> translations;  // of each set; none if nothing was translated
};

/// Measures a model on validation sets, on all ranks; every rank gets the same numbers, independent of the
/// number of ranks.
class Validation {
 public:
  /// The references must outlive the object; the Transformer must be planned for validation_capacity().
  Validation(Context& context, Communicator& communicator, const data::Corpus& corpus,
             const ValidationSets& sets, const TrainOptions& options, ValidationRows rows);

  /// Loss per target token without dropout and, if requested, BLEU and, as the --valid-metric, chrF of beam
  /// search against the raw reference lines, of each set. Empty on all ranks after a stop request
  /// (stop_requested()): the rank ends before its next batch of sentences, and the others after theirs. Calls
  /// `heartbeat` before each batch.
  std::optional<Validated> run(Transformer& transformer, ParameterStore& store, const TransformerIds& ids,
                               int64_t step, const std::function<void()>& heartbeat);
  const ValidationScorer& scorer() const { return scorer_; }

 private:
  /// The result of a set.
  struct OfSet {
    ValidationMetrics metrics;
    std::vector<std::string> translations;
  };
  using Stops = std::function<bool()>;

  /// Both return false if validation must be abandoned.
  bool add_loss(Transformer& transformer, size_t set, OfSet& result, const Stops& stops);
  bool translate(BeamSearch& search, size_t set, OfSet& result, const Stops& stops);
  void add_scores(size_t set, OfSet& result) const;
  BeamSearchOptions search_options() const;

  Context& context_;
  Communicator& communicator_;
  const data::Corpus& corpus_;
  const ValidationSets& sets_;
  const TrainOptions& options_;
  const ValidationScorer scorer_;
  const ValidationRows rows_;
  std::vector<std::vector<std::vector<int64_t>>> batches_;  // of each set the pairs of each micro-batch
  BatchStage stage_;
};

}  // namespace ventris
