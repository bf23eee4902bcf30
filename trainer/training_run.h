// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/checkpoint/resume.h"
#include "trainer/corpus_watch.h"
#include "trainer/divergence.h"
#include "trainer/initial_values.h"
#include "trainer/observers/metrics.h"
#include "trainer/observers/progress.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/step_reports.h"
#include "trainer/trainer.h"
#include "trainer/training_step.h"
#include "trainer/validation/validation.h"

namespace ventris {

class TensorBoardLog;
class ValidationScript;

/// The parts of a training run and the work between its steps. All ranks must call all functions.
class TrainingRun {
 public:
  using Clock = std::chrono::steady_clock;
  /// Reads the corpus, compares the ranks, creates the model and resumes from a checkpoint if there is one.
  TrainingRun(Context& context, Communicator& communicator, const TrainOptions& options,
              const std::string& command, RunStatus* status);

  /// False at the end of training: by steps, epochs, minutes, patience or request.
  bool goes_on() const;
  data::GlobalBatch begin_step();  // counts the step and returns its sentence pairs
  /// Enqueues the whole step: forward and backward, the sums over the ranks, Adam (TrainingStep). False if it
  /// was abandoned for a stop, on all ranks: then the state is that after the previous step.
  bool compute_step(const data::GlobalBatch& batch);
  /// Advances past the batch. Throws Error(kDiverged) if training diverged (trainer/divergence.h).
  void complete_step(const data::GlobalBatch& batch);
  bool validation_is_pending() const;  // the previous start was stopped during it
  bool validation_is_due() const;
  /// Validates; the best model so far is saved. On a stop request it is abandoned, and marked as pending.
  void validate();
  bool save_is_due() const;
  /// Copies the state; rank 0 writes it during training.
  void save(const std::optional<CheckpointSaver::Best>& best = {});
  TrainResult finish();
  /// Waits, with a limit, for a pending checkpoint. False if its thread hangs: the object must outlive it.
  bool settle();

  int64_t step() const { return state_.step; }  // steps done
  std::string digest();                         // trainer/checkpoint/parameter_digest.h; waits for the step

 private:
  void make_model(InitialValues& initial);
  void rehearse();
  bool measures_step() const;  // whether the profile measures the next one
  /// Whether this rank or another received a stop request, which is passed on to all.
  bool stop_is_asked_for();
  /// Sums the numbers of a step on the hosts, without waiting for the device; its operations become those of
  /// all ranks. True if a rank abandoned it.
  bool agree_with_all_ranks(TrainingStep::Enqueued& step);
  void take_step_back(const TrainingStep::Enqueued& step);
  void read_reports(size_t max_left);  // of steps, waiting for the device, until at most so many are pending
  void count_step(const StepReports::Arrived& arrived);
  void count_skipped_step(const StepReports::Arrived& arrived);
  void check_divergence();
  void log_interval();
  bool log_is_due() const, digest_is_due() const;
  void report_digest();
  bool rank_check_is_due() const;
  void check_ranks();               // trainer/checkpoint/replicas.h; at most once after a step
  void check_surroundings() const;  // throws if the corpus changed, or the run folder is another
  bool reports_are_due() const;     // the work after the step needs the numbers of all steps
  void complete_masters();          // on every rank, if their owners alone have those of the step
  void exchange_with_average();     // swaps the parameters with their average, if there is one
  void open_logs();
  ResumedStart resumed_start() const;
  void describe_run();
  std::string what_is_done() const;  // the limit that a finished run reached
  OptimizerState whole_state();      // on rank 0 of all elements; all ranks must call it
  /// Wait on all ranks, which exchange messages. A stop ends the wait for scores.
  void wait_for_save();
  void wait_for_script();
  void record_save();  // in status.json: the last checkpoint is on the disk
  double seconds_of_run() const, seconds_left() const, epochs() const;
  IntervalMetrics interval_metrics() const;
  void sign(ValidationMetrics& metrics);

  Context& context_;
  Communicator& communicator_;
  TrainOptions options_;  // resolved
  const std::string command_;
  RunStatus* const status_;  // or null
  const Clock::time_point begin_ = Clock::now();
  Progress progress_;
  const CorpusWatch corpus_watch_;
  data::Corpus corpus_;
  ParameterStore store_;
  TransformerIds ids_;
  const std::unique_ptr<data::FolderLock> folder_lock_;  // of rank 0
  ResumePoint resume_point_;
  const int shards_;
  const data::BatchSource batches_;
  const Schedule schedule_;
  const ValidationSets valid_sets_;
  TrainingState state_;
  std::optional<Optimizer> optimizer_;  // these after the store is allocated
  std::optional<Transformer> transformer_;
  std::optional<Validation> validation_;         // if there are validation pairs
  std::optional<MetricsLog> metrics_;            // of rank 0
  std::shared_ptr<TensorBoardLog> tensorboard_;  // likewise; null without --tensorboard
  std::shared_ptr<ValidationScript> script_;     // likewise; null without --valid-script
  std::optional<CheckpointSaver> saver_;         // on rank 0
  std::optional<StepReports> reports_;
  std::optional<BatchFeed> feed_;
  std::optional<TrainingStep> step_;  // the last: its destructor releases users of the memory of the others
  IntervalSums interval_, whole_run_;
  double own_seconds_ = 0.0, waited_before_ = 0.0;  // steps without waits for other ranks; waits so far
  Clock::time_point step_begin_ = Clock::now();
  double last_gradient_norm_ = 0.0, last_learning_rate_ = 0.0;
  DivergenceWatch divergence_{state_};
  bool nothing_to_do_ = false;             // the checkpoint to resume from is that of the last step
  bool stop_ = false, told_stop_ = false;  // requested on some rank; told to the other ranks
  bool out_of_time_ = false;               // by max_minutes, on the clock of rank 0
  double elapsed_before_ = 0.0, first_epoch_ = 0.0, flops_ = 0.0;  // of the model, all ranks
  int64_t first_step_ = 0, validated_step_ = -1, saved_step_ = -1, checked_step_ = -1;
  std::string last_checkpoint_;
};

}  // namespace ventris
