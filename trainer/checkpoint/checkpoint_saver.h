// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "backend/device/context.h"
#include "comm/guard.h"
#include "data/io/folder_lock.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ventris {

/// Writes the checkpoints of a run on a thread of rank 0, from a copy on the host, during training. The
/// thread checks that all numbers are finite, writes the file (data/io/hdf5_writer.h: unnamed, fsync, the
/// name, fsync of the folder), reads it again and compares digests; then it records the best and removes old
/// checkpoints, but never the newest two or the best. If the state is not sound, nothing is written or
/// removed: the save ends with Error(kDiverged), which names the array and the newest sound checkpoint. The
/// thread calls no MPI and no CUDA. All functions must be called by the training thread; those that throw the
/// error of a save also throw Error(kIo) for a save that exceeds the limit, where the time between two calls
/// counts as at most one second. Such a save and its thread continue.
class CheckpointSaver {
 public:
  /// The settings that are the same for all checkpoints.
  struct Run {
    std::string model_dir;
    TransformerConfig config;
    data::TokenizerModels tokenizers;
    int keep = 2;                              // newest checkpoints; at least two
    double limit_seconds = 0;                  // of one save, from its beginning to its end; 0: none
    std::string lower_rate = {};               // with which to start again after a divergence
    std::string begun_from = {};               // the checkpoint from which the run resumes, or ""
    const data::FolderLock* folder = nullptr;  // checked before each change of a name; may be null
  };
  /// The value of the validation metric that makes a checkpoint the best of the run.
  struct Best {
    std::string metric;
    double value = 0.0;
    std::string signature = {};  // of the score; "" if it has none
  };

  /// Allocates host memory for a whole checkpoint. The store must outlive the object.
  CheckpointSaver(Context& context, const ParameterStore& store, bool with_average, Run run);
  /// Waits for a pending save, without a limit; its errors are ignored.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Waits for a pending save, copies the state, and returns the path of the future checkpoint; the caller
  /// may then modify all arguments. Throws the error of the previous save.
  std::string save(const TrainingState& state, const OptimizerState& optimizer, const std::string& provenance,
                   const std::optional<Best>& best = {});
  /// Waits for a pending save; memory on the host for the state of the optimizer, from which save() copies
  /// nothing.
  OptimizerState room();
  /// Whether a save that was pending at the last call has ended. Throws its error. Does not block.
  bool check();
  /// The same, but waits for a pending save.
  bool finish();
  /// Waits for a pending save, at most for this time. True if it has ended, or there is none. Throws if it
  /// exceeds the limit; other errors are reported by the next call.
  bool wait(std::chrono::milliseconds max);
  /// Waits up to the limit, without throwing. True if the save has ended, or there is none.
  bool settle();
  /// Waits in the same way; returns the newest checkpoint that was written and verified, or Run::begun_from.
  std::string last_verified();

 private:
  void write(const std::string& provenance, const std::optional<Best>& best);
  /// The first part of a save: writes the checkpoint if the state is sound.
  void write_sound(const std::string& provenance);
  void check_folder() const;
  /// Throws if the pending save exceeds the limit.
  void check_time();

  const Run run_;
  CheckpointSnapshot snapshot_;  // owned by the thread during a save
  std::string written_;          // the newest sound one, or ""
  std::string last_verified_;
  std::future<void> under_way_;
  std::string path_;  // of the checkpoint of the newest save
  WaitClock clock_;   // of the newest save
};

}  // namespace ventris
