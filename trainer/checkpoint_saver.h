#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "backend/context.h"
#include "comm/wait_clock.h"
#include "data/files/folder_lock.h"
#include "model/parameters.h"
#include "model/transformer_config.h"
#include "trainer/files/checkpoint.h"

namespace ventris {

/// Writes the checkpoints of a run on a thread, from a copy on the host, while training goes on; of rank 0.
/// The thread sees that all numbers are finite, writes the file (data/files/hdf5_writer.h: without a name,
/// fsync, the name, fsync of the folder), reads it again and compares digests; then it records the best and
/// removes old checkpoints, but never the newest two or the best. Of a state that is not sound nothing is
/// written and for it nothing is removed: the save ends with Error(kDiverged), which names the array and the
/// newest sound checkpoint. The thread calls no MPI and no CUDA. All calls are of the thread that trains;
/// those that throw what went wrong with a save also throw Error(kIo) for one that takes longer than the
/// limit, in which time between two calls counts as a second at most. That save goes on, and so has its
/// thread.
class CheckpointSaver {
 public:
  /// What does not change from one checkpoint to the next.
  struct Run {
    std::string model_dir;
    TransformerConfig config;
    std::string tokenizer_model;
    int keep = 2;                              // newest checkpoints; one is taken for two
    double limit_seconds = 0;                  // of one save, from its beginning to its end; 0: none
    std::string begun_from = {};               // the checkpoint that the run goes on from, or ""
    const data::FolderLock* folder = nullptr;  // checked before each change of a name, where there is one
  };
  /// The value of the validation metric that makes a checkpoint the best of the run.
  struct Best {
    std::string metric;
    double value = 0.0;
  };

  /// Takes host memory for all that a checkpoint holds. The store outlives the object.
  CheckpointSaver(Context& context, const ParameterStore& store, bool with_average, Run run);
  /// Waits for a save under way, without a limit; what goes wrong there is lost.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  /// Waits for the save before, if one is under way, copies the state, and returns the path that the
  /// checkpoint will have; the caller may then change everything that it gave. Throws what ended the save
  /// before.
  std::string save(const TrainingState& state, const OptimizerState& optimizer, const std::string& provenance,
                   const std::optional<Best>& best = {});
  /// Whether a save has ended that was under way at the last call. Throws what went wrong with it. Takes no
  /// time.
  bool check();
  /// The same of a save under way, for which it waits.
  bool finish();
  /// Waits for a save under way, at most so long. Whether it has ended, or there is none. Throws where it
  /// takes longer than the limit; what else went wrong is reported by the next call.
  bool wait(std::chrono::milliseconds max);
  /// Waits up to the limit, without throwing. Whether the save has ended, or there is none.
  bool settle();
  /// Waits likewise; returns the newest checkpoint that was written and verified, else Run::begun_from.
  std::string last_verified();

 private:
  void write(const std::string& provenance, const std::optional<Best>& best);
  /// The first part of it: the checkpoint, unless the state is not sound.
  void write_sound(const std::string& provenance);
  void check_folder() const;
  /// Throws where the save under way takes longer than the limit.
  void check_time();

  const Run run_;
  CheckpointSnapshot snapshot_;  // the thread's while a save is under way
  std::string written_;          // likewise: the newest sound one, or ""
  std::string last_verified_;
  std::future<void> under_way_;
  std::string path_;  // of the checkpoint of the newest save
  WaitClock clock_;   // of the newest save
};

}  // namespace ventris
