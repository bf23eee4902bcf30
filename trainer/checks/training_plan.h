// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/arena.h"
#include "data/corpus.h"
#include "model/micro_batch.h"
#include "model/transformer_config.h"
#include "trainer/checks/training_plan_scaling.h"
#include "trainer/train_options.h"

namespace ventris {

/// The machines of a planned run.
struct PlannedMachine {
  int ranks = 1;
  int ranks_per_host = 0;  // 0: all on one host
  Device device = Device::kCpu;
  // Bytes; 0: unknown, not checked
  int64_t device_memory = 0;             // of a CUDA device
  int64_t host_memory = 0;               // of a host
  int64_t free_disk = 0;                 // of the run folder
  std::optional<PlannedLink> link = {};  // with it, the time of a step is predicted
};

/// A kind of memory of one rank.
struct PlannedMemory {
  std::string name;
  int64_t bytes;
  bool on_device;  // on the CUDA device if that computes; otherwise in host memory
  bool exact;      // exact allocation; otherwise an estimate
  bool once;       // only on rank 0
};

/// A stage of a plan of `--mix`.
struct PlannedStage {
  std::string name;
  std::string end;        // data::to_text(); "" if it lasts to the end of training
  int64_t steps = 0;      // 0: a validation ends it, or nothing
  bool estimated = true;  // from the lengths of its corpora; not if the plan names the steps
};

/// The resources of a run of `ventris train`, computed before its start.
struct TrainingPlan {
  TransformerConfig model;
  Precision precision = Precision::kF32;  // resolved
  PlannedMachine machine;
  int64_t parameters = 0;
  int64_t frozen_parameters = 0;  // of these
  int shards = 0;                 // of a global batch
  int shards_of_a_rank = 0;       // maximum over the ranks
  MicroBatchCapacity micro_batch = {};
  double recomputed = 0.0;  // operations of --recompute, as a share of those without it
  std::vector<PlannedMemory> memory;
  int64_t corpus_bytes = 0;  // mapped, one copy a host, which the system may drop and read again
  int64_t pairs = 0;
  int64_t steps_per_epoch = 0;          // steps that begin in the first epoch
  bool steps_are_exact = true;          // otherwise estimated from some steps
  double source_tokens_per_step = 0.0;  // mean over the first epoch, or those steps
  double target_tokens_per_step = 0.0;
  std::string schedule;                   // describe_schedule()
  int64_t steps = 0;                      // of the whole run; fewer if patience or minutes end it
  double epochs = 0.0;                    // of these steps
  std::vector<PlannedStage> stages = {};  // with --mix
  int64_t checkpoint_bytes = 0;
  int checkpoints = 0;                     // on disk at most: those kept, the best, and the one being written
  std::optional<PredictedStep> predicted;  // with a link
  std::string excess;                      // what does not fit, with a remedy; "" if everything fits

  int64_t device_bytes() const;  // of one rank
  int64_t host_bytes() const;    // of one rank
  int64_t bytes_of_a_host() const;
  int64_t disk_bytes() const { return checkpoint_bytes * checkpoints; }
};

/// Memory is computed by the code that allocates it, steps from all batches of an epoch of at most 65,536
/// pairs. Of more they are an estimate: the tokens of the corpus over the mean of the batches of 32,768
/// pairs, on the side that fills them, as batches differ little in what they leave empty. These pairs are 512
/// blocks of 64 neighbours, spread evenly over the file. With a plan of stages, or tokens drawn anew, they
/// are the first 8,192 that are drawn, exact if these are an epoch. Throws Error(kBadConfiguration) for
/// options that `train` refuses, and DataError for a corpus that it refuses.
TrainingPlan plan_training(const TrainOptions& options, const PlannedMachine& machine);

}  // namespace ventris
