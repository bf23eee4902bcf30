// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/io/folder_lock.h"
#include "model/transformer.h"
#include "trainer/batch_feed.h"
#include "trainer/checkpoint/checkpoint_saver.h"
#include "trainer/checkpoint/resume_point.h"
#include "trainer/corpus_watch.h"
#include "trainer/divergence.h"
#include "trainer/observer.h"
#include "trainer/observers/progress.h"
#include "trainer/observers/validation_script.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/step_agreement.h"
#include "trainer/step_reports.h"
#include "trainer/train_options.h"
#include "trainer/training_step.h"
#include "trainer/validation/validation.h"

namespace ventris {

/// The sentence pairs of a run. Reads the corpus.
struct RunCorpus {
  explicit RunCorpus(const std::string& path) : watch(path), corpus(path), valid_sets(corpus) {}

  const CorpusWatch watch;  // begins before the file is opened
  const data::Corpus corpus;
  const ValidationSets valid_sets;
};

/// Where a start of the program begins.
struct StartPoint {
  std::string command;
  std::unique_ptr<data::FolderLock> lock;  // of the run folder, on rank 0
  ResumePoint resume_point;
  bool nothing_to_do = false;  // the checkpoint to resume from is that of the last step
  int64_t step = 0;            // steps done before
  double epoch = 0.0;
  double elapsed_seconds = 0.0;  // of training, over all earlier starts
};

struct RunModel {
  ParameterStore store;
  TransformerIds ids;
  std::optional<Transformer> transformer;  // after the store is allocated
};

struct RunClocks {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now();
  Clock::time_point step_begin = begin;
  double waited_before_step = 0.0;
  double own_seconds = 0.0;  // of steps without waits for other ranks, until this rank's time is reported
};

/// What a run tells about itself: the numbers of its steps, and who gets them.
struct Reporting {
  Progress progress;                                      // speaks on rank 0
  Observer* const caller;                                 // or null; notified on every rank
  std::vector<std::unique_ptr<Observer>> observers = {};  // on rank 0
  IntervalSums interval = {};
  IntervalSums whole_run = {};
  double gradient_norm = 0.0;  // of the last step that was not skipped
  double learning_rate = 0.0;  // of the last step

  /// Notifies all: notify(&Observer::on_save, saved).
  template <typename Event, typename What>
  void notify(Event event, const What& what) {
    for (const auto& observer : observers) (observer.get()->*event)(what);
    (progress.*event)(what);
    if (caller != nullptr) (caller->*event)(what);
  }
};

struct Saving {
  std::optional<CheckpointSaver> saver;  // on rank 0
  std::string last_checkpoint;
  int64_t saved_step = -1;
  int64_t checked_step = -1;  // at which the ranks were compared
};

struct Validating {
  std::optional<Validation> validation;  // if there are validation pairs
  ValidationScript* script = nullptr;    // of the observers, if there is one
  int64_t validated_step = -1;
};

/// The parts of a training run, in the order in which they are made.
struct Run {
  Run(Context& context, Communicator& communicator, const TrainOptions& given, const std::string& command,
      Observer* observer);

  Context& context;
  Communicator& communicator;
  TrainOptions options;  // resolved
  RunClocks clocks;
  Reporting reporting;
  const RunCorpus corpus;
  StartPoint start;
  const data::BatchSource batches;
  const Schedule schedule;
  TrainingState state;
  DivergenceWatch divergence{state};
  StepAgreement agreed;  // of the last step
  RankAgreement ranks;
  RunModel model;
  std::optional<Optimizer> optimizer;
  Validating validating;
  Saving saving;
  StepReports reports;
  std::optional<BatchFeed> feed;
  std::optional<TrainingStep> step;  // the last: its destructor releases users of the memory of the others

  /// False at the end of training: by steps, epochs, minutes, patience or request.
  bool training_continues() const;
  bool validates() const { return validating.validation && options.valid_every > 0; }
  bool validation_is_pending() const;  // the previous start was stopped during it
  double epochs() const;
  double seconds() const;  // of this start
  IntervalMetrics interval_metrics() const;
  void check_environment() const;  // throws if the corpus changed, or the run folder is another
};

/// Reads the corpus, compares the ranks, creates the model, resumes from a checkpoint if there is one, and
/// notifies the observers of the start. All ranks must call it. Arguments as of train().
std::unique_ptr<Run> make_run(Context& context, Communicator& communicator, const TrainOptions& options,
                              const std::string& command, Observer* observer);

}  // namespace ventris
