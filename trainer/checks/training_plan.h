// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/device/arena.h"
#include "model/micro_batch.h"
#include "model/transformer_config.h"
#include "trainer/train_options.h"

namespace ventris {

/// The machines of a planned run, and what was measured on them.
struct PlannedMachine {
  int ranks = 1;
  int ranks_per_host = 0;  // 0: all on one host
  Device device = Device::kCpu;
  // Bytes; 0: unknown, not checked
  int64_t device_memory = 0;  // of a CUDA device
  int64_t host_memory = 0;    // of a host
  // Seconds
  double step = 0.0;         // of one rank that computes all micro-batches of a step; 0: nothing is predicted
  double fixed = 0.0;        // of these, what every rank repeats: the update, launches
  double sum_latency = 0.0;  // of a sum of one number over the ranks
  double sum_bandwidth = 0.0;  // bytes a second in and out of a rank, as DoctorReport's; required with a step
};

/// A kind of memory of one rank.
struct PlannedMemory {
  std::string name;
  int64_t bytes;
  bool on_device;     // on the CUDA device; otherwise in host memory
  bool exact = true;  // exact allocation; otherwise an estimate
  bool once = false;  // only on rank 0
};

/// The time of a step of several ranks in seconds: a prediction.
struct PredictedStep {
  double compute = 0.0;     // of the rank with most micro-batches
  double exchange = 0.0;    // of gradients, and parameters with --shard-optimizer
  double exposed = 0.0;     // of these, the time in which no rank computes
  double efficiency = 1.0;  // speed of a rank, relative to one rank alone
  double step() const { return compute + exposed; }
};

/// The resources of a run of `ventris train`, computed before its start.
struct TrainingPlan {
  TransformerConfig model;
  Precision precision = Precision::kF32;  // resolved
  PlannedMachine machine;
  int64_t parameters = 0;
  int shards = 0;            // of a global batch
  int shards_of_a_rank = 0;  // maximum over the ranks
  MicroBatchCapacity micro_batch = {};
  std::vector<PlannedMemory> memory;
  int64_t pairs = 0;
  int64_t steps_per_epoch = 0;          // steps that begin in the first epoch
  bool steps_are_exact = true;          // otherwise estimated from its first steps
  double source_tokens_per_step = 0.0;  // mean over the first epoch, or those steps
  double target_tokens_per_step = 0.0;
  int64_t steps = 0;            // of the whole run; fewer if patience or minutes end it
  bool steps_are_most = false;  // also fewer if epochs or validations end the last stage of --mix before
  double epochs = 0.0;          // of these steps
  int64_t checkpoint_bytes = 0;
  int checkpoints = 0;                     // on disk at most: those kept, the best, and the one being written
  std::optional<PredictedStep> predicted;  // with PlannedMachine::step
  std::string excess;                      // what does not fit, with a remedy; "" if everything fits

  int64_t device_bytes() const;  // of one rank
  int64_t host_bytes() const;    // of one rank
  int64_t bytes_of_a_host() const;
  int64_t disk_bytes() const { return checkpoint_bytes * checkpoints; }
};

/// Memory is computed by the code that allocates it, steps from the batches of the first 65,536 pairs. Throws
/// Error(kBadConfiguration) for options that `train` refuses, and DataError for a corpus that it refuses.
/// The files of --init-embeddings are not read.
///
/// Gradients are summed in buckets (comm/shard_plan.h). A sum of n bytes over p ranks is predicted to
/// take sum_latency + 2 (p - 1) / p n / sum_bandwidth; with --shard-optimizer the second term is halved, and
/// the exchange of the parameters takes as long again. On CUDA the sums overlap with the backward pass of the
/// last micro-batch, two thirds of its time, except for the bucket that it completes last. On CPUs nothing
/// overlaps, as the ranks move the bytes themselves.
TrainingPlan plan_training(const TrainOptions& options, const PlannedMachine& machine);

}  // namespace ventris
