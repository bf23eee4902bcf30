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
#include "trainer/checkpoint_saver.h"
#include "trainer/corpus_watch.h"
#include "trainer/divergence.h"
#include "trainer/files/run_status.h"
#include "trainer/metrics.h"
#include "trainer/optimizer.h"
#include "trainer/progress.h"
#include "trainer/resume.h"
#include "trainer/schedule.h"
#include "trainer/step_reports.h"
#include "trainer/trainer.h"
#include "trainer/training_step.h"
#include "trainer/validation.h"

namespace ventris {

/// What train() works with: the parts of a training run and the chores between its steps. Every call is made
/// on all ranks.
class TrainingRun {
 public:
  /// Reads the corpus, compares the ranks, makes the model and goes on from a checkpoint if there is one.
  TrainingRun(Context& context, Communicator& communicator, const TrainOptions& options,
              const std::string& command, RunStatus* status = nullptr);

  /// False at the end of training: by steps, epochs, minutes, patience, target or request.
  bool goes_on() const;
  /// Counts the step and gives its sentence pairs.
  data::GlobalBatch begin_step();
  /// Gives the device the whole step: forward and backward, the sums over the ranks, Adam (TrainingStep).
  /// False where it was abandoned for a stop, on all ranks: then the state is that after the step before.
  bool compute_step(const data::GlobalBatch& batch);
  /// Moves on past the batch and tells what is due. Throws Error(kDiverged) when the tenth step in a row had
  /// a loss or gradient that is not finite.
  void complete_step(const data::GlobalBatch& batch);
  bool validation_is_pending() const;  // the run before this one was stopped in it
  bool validation_is_due() const;
  /// Validates; the best model so far is saved. Where a stop is asked for it is abandoned, and pending.
  void validate();
  bool save_is_due() const;
  /// Copies the state; rank 0 writes it while training goes on.
  void save(const std::optional<CheckpointSaver::Best>& best = {});
  TrainResult finish();
  /// Waits, on rank 0, for a checkpoint under way, but not for ever. False where its thread hangs in a call
  /// of the system: then the object must outlive it.
  bool settle();

  int64_t step() const { return state_.step; }  // steps done
  /// Of the parameters (trainer/files/parameter_digest.h); waits for the step.
  std::string digest();

 private:
  using Clock = std::chrono::steady_clock;

  void make_model();
  /// Whether the profile measures the step that begins.
  bool measures_step() const;
  /// Whether this rank or another is asked to stop; then they all know soon.
  bool stop_is_asked_for();
  /// Sums the numbers of a step that the hosts have, without waiting for the device. Returns whether a rank
  /// abandoned the step.
  bool agree_with_all_ranks(const TrainingStep::Enqueued& step);
  void take_step_back(const TrainingStep::Enqueued& step);
  /// Reads the reports of steps, waiting for the device, until at most `max_left` are on their way.
  void read_reports(size_t max_left);
  void count_step(const StepReports::Arrived& arrived);
  void count_skipped_step(const StepReports::Arrived& arrived);
  void log_interval();
  bool log_is_due() const;
  bool digest_is_due() const;
  void report_digest();
  bool rank_check_is_due() const;
  /// Compares the training state of all ranks, once after a step (trainer/replicas.h).
  void check_ranks();
  /// Throws where the corpus changed, or the run folder is not the one that rank 0 holds any more.
  void check_surroundings() const;
  /// Whether something follows the step that needs the numbers of all steps.
  bool reports_are_due() const;
  /// Puts the average of the parameters, where there is one, in their place, and back.
  void exchange_with_average();
  void describe_run();
  /// Of a run that does not go on: which of its limits it reached.
  std::string what_is_done() const;
  /// Waits for the checkpoint under way; meanwhile the ranks hear of one another.
  void wait_for_save();
  void record_save();  // in status.json: the last checkpoint is on the disk
  double seconds_of_run() const;
  double seconds_left() const;
  double epochs() const;
  IntervalMetrics interval_metrics() const;

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
  TrainingState state_;
  std::optional<Optimizer> optimizer_;  // these after the store is allocated
  std::optional<Transformer> transformer_;
  std::optional<Validation> validation_;  // where there are validation pairs
  std::optional<MetricsLog> metrics_;     // of rank 0
  std::optional<CheckpointSaver> saver_;  // likewise
  std::optional<StepReports> reports_;
  std::optional<BatchFeed> feed_;
  std::optional<TrainingStep> step_;  // the last: it lets go of what holds the memory of the others

  IntervalSums interval_;
  Clock::time_point step_begin_ = Clock::now();
  double last_gradient_norm_ = 0.0;
  double last_learning_rate_ = 0.0;
  DivergenceWatch divergence_{state_};
  bool nothing_to_do_ = false;  // the checkpoint to go on from is the last
  bool stop_ = false;           // asked for on some rank
  bool told_stop_ = false;      // to the other ranks
  bool out_of_time_ = false;    // by max_minutes, on the clock of rank 0
  double elapsed_before_ = 0.0, first_epoch_ = 0.0;
  IntervalSums whole_run_;
  double flops_ = 0.0;  // of the model, all ranks
  int64_t first_step_ = 0, validated_step_ = -1, saved_step_ = -1, checked_step_ = -1;
  std::string last_checkpoint_;
};

}  // namespace ventris
