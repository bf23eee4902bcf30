#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "backend/context.h"
#include "data/corpus.h"
#include "model/batch_stage.h"
#include "model/transformer.h"
#include "trainer/metrics.h"
#include "trainer/train_options.h"

namespace ventris {

class Communicator;

/// The batch sizes of validation. Results depend on them only within rounding.
struct ValidationRows {
  int64_t loss;        // of a side, or the longest sentence if that is longer
  int64_t search = 0;  // BeamSearchOptions::batch_rows
};

/// Fixed for a kind of device, so that results depend on neither ranks nor the batches of training.
inline ValidationRows validation_rows_of(Device device) {
  return {.loss = device == Device::kCpu ? 1024 : 4096};
}

/// Measures a model on the validation pairs of a corpus, on all ranks; every rank gets the same numbers,
/// independent of the number of ranks.
class Validation {
 public:
  /// The references must outlive the object; the Transformer must be planned for capacity().
  Validation(Context& context, Communicator& communicator, const data::Corpus& corpus,
             const TrainOptions& options, ValidationRows rows);

  static MicroBatchCapacity capacity(const data::Corpus& corpus, ValidationRows rows);

  /// Loss per target token without dropout and, if requested, BLEU and chrF of beam search against the raw
  /// reference lines. Empty on all ranks after a stop request (stop_requested()): the rank ends before its
  /// next batch of sentences, and the others after theirs. Calls `goes_on` before each batch.
  std::optional<ValidationMetrics> run(Transformer& transformer, ParameterStore& store,
                                       const TransformerIds& ids, int64_t step,
                                       const std::function<void()>& goes_on);

 private:
  /// Both return false if validation must be abandoned.
  bool add_loss(Transformer& transformer, ValidationMetrics& metrics, const std::function<bool()>& stops);
  /// Translates, and compares with the raw reference lines.
  bool add_scores(const TransformerConfig& config, ParameterStore& store, const TransformerIds& ids,
                  ValidationMetrics& metrics, const std::function<bool()>& stops);

  Context& context_;
  Communicator& communicator_;
  const data::Corpus& corpus_;
  const TrainOptions& options_;
  const ValidationRows rows_;
  std::vector<std::vector<int64_t>> batches_;  // pairs of each micro-batch
  BatchStage stage_;
};

}  // namespace ventris
