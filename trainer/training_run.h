#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/step_graph.h"
#include "comm/communicator.h"
#include "comm/gradient_reducer.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/checkpoint.h"
#include "trainer/metrics.h"
#include "trainer/optimizer.h"
#include "trainer/progress.h"
#include "trainer/schedule.h"
#include "trainer/trainer.h"
#include "trainer/validation.h"

namespace ventris {

/// Micro-batches of a global batch: options.logical_shards, or the smallest multiple of the ranks with at
/// most micro_batch_tokens of a side in each.
int resolved_shards(const TrainOptions& options, int ranks, Device device);

/// What train() works with: the parts of a training run and the chores between its steps. Every call is made
/// on all ranks.
class TrainingRun {
 public:
  /// Reads the corpus, compares the ranks, makes the model and goes on from a checkpoint if there is one.
  TrainingRun(Context& context, Communicator& communicator, const TrainOptions& options,
              const std::string& command);
  /// Lets go of sums over the ranks that an exception leaves under way.
  ~TrainingRun();

  /// False at the end of training: by steps, epochs, minutes, patience or request.
  bool goes_on() const;
  /// Counts the step and gives its sentence pairs.
  data::GlobalBatch begin_step();
  /// Forward and backward of this rank's shards, gradients added up over all ranks meanwhile. Returns the
  /// loss of the global batch (sums over its target tokens).
  LossSums accumulate_gradients();
  /// Of the gradients of the global batch; the same on all ranks.
  double gradient_norm() { return optimizer_->gradient_norm(); }
  /// One step of Adam at the learning rate of the schedule.
  void update_parameters(double gradient_norm);
  /// Counts a step whose loss or gradient is not finite. Throws Error(kDiverged) at the tenth in a row.
  void skip_step();
  /// Clears the gradients, moves on past the batch and tells the user and metrics.jsonl what is due.
  void complete_step(const data::GlobalBatch& batch, const LossSums& sums, double gradient_norm);
  bool validation_is_due() const;
  /// Validates; the best model so far is saved and recorded.
  void validate();
  bool save_is_due() const;
  void save();
  TrainResult finish();

 private:
  using Clock = std::chrono::steady_clock;

  BatchFeed::Share share() const;
  void make_model();
  /// Whether the profile measures the step that begins.
  bool measures_step() const;
  /// Gives the device all work of a step before the update and reads nothing back: forward and backward of
  /// this rank's micro-batches, the sums over the ranks, the norm. Returns the floating-point operations.
  double enqueue_gradients();
  /// The part of it that follows this rank's last micro-batch.
  void finish_gradients();
  BatchFeed::Piece next_micro_batch();
  StepGraph& graph_of(const BatchFeed::Piece& piece, bool last);
  void make_folder();
  void describe_run();
  double seconds_of_run() const;
  double seconds_left() const;
  double epochs() const;
  IntervalMetrics interval_metrics() const;

  Context& context_;
  Communicator& communicator_;
  TrainOptions options_;  // resolved
  const std::string command_;
  const Clock::time_point begin_ = Clock::now();
  Progress progress_;
  data::Corpus corpus_;
  ParameterStore store_;
  TransformerIds ids_;

  const int shards_;
  const data::BatchSource batches_;
  const Schedule schedule_;
  TrainingState state_;
  std::optional<Optimizer> optimizer_;  // these after the store is allocated
  std::optional<Transformer> transformer_;
  std::unique_ptr<Communicator> device_communicator_;  // of gradients, where the device has its own
  std::optional<GradientReducer> reducer_;
  std::optional<Validation> validation_;  // where there are validation pairs
  std::optional<MetricsLog> metrics_;     // of rank 0
  std::optional<BatchFeed> feed_;
  /// The device's work on a micro-batch of one shape.
  struct ShapedGraph {
    MicroBatchCapacity shape;
    std::optional<StepGraph> graph;
  };
  std::array<std::array<ShapedGraph, 2>, 2> graphs_;  // by stage, and whether it is the last of the step

  IntervalSums interval_;
  Clock::time_point step_begin_ = Clock::now();
  double last_gradient_norm_ = 0.0;
  double last_learning_rate_ = 0.0;
  std::string first_not_finite_;
  bool stop_ = false;         // asked for on some rank
  bool out_of_time_ = false;  // by max_minutes, on the clock of rank 0
  double elapsed_before_ = 0.0;
  IntervalSums whole_run_;
  double flops_ = 0.0;        // of the model, all ranks
  FlopCount measured_flops_;  // of the steps of the profile, this rank
  int64_t first_step_ = 0;
  double first_epoch_ = 0.0;
  int64_t validated_step_ = -1;
  int64_t saved_step_ = -1;
  std::string last_checkpoint_;
};

}  // namespace ventris
