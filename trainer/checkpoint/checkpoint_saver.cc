// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/checkpoint_saver.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "backend/device/error.h"
#include "backend/device/memory_room.h"
#include "comm/affinity.h"
#include "data/error.h"
#include "data/io/atomic_file.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/checkpoint/save_timeout.h"
#include "trainer/divergence.h"

namespace ventris {
namespace {

// The newest may turn out to be damaged when it is needed.
constexpr int kMinKept = 2;

// For the HDF5 library and its buffers; the snapshot has its own.
constexpr size_t kRoomForSaving = size_t{32} << 20;

constexpr std::chrono::milliseconds kLook{50};

}  // namespace

CheckpointSaver::CheckpointSaver(Context& context, const ParameterStore& store, bool with_average, Run run)
    : run_(std::move(run)),
      snapshot_(context, store, with_average),
      written_(run_.begun_from),
      last_verified_(run_.begun_from) {}

CheckpointSaver::~CheckpointSaver() {
  if (under_way_.valid()) under_way_.wait();
}

std::string CheckpointSaver::save(const TrainingState& state, const OptimizerState& optimizer,
                                  const std::string& provenance, const std::optional<Best>& best) {
  finish();
  snapshot_.take(state, optimizer);
  path_ = path_of_checkpoint(run_.model_dir, state.step);
  clock_.restart();
  under_way_ = std::async(std::launch::async, [this, provenance, best] { write(provenance, best); });
  return path_;
}

OptimizerState CheckpointSaver::room() {
  finish();
  return snapshot_.room();
}

bool CheckpointSaver::check() {
  return wait(std::chrono::milliseconds(0)) && finish();
}

bool CheckpointSaver::finish() {
  if (!under_way_.valid()) return false;
  while (!wait(kLook)) {
  }
  under_way_.get();
  last_verified_ = written_;
  return true;
}

bool CheckpointSaver::wait(std::chrono::milliseconds max) {
  if (!under_way_.valid() || under_way_.wait_for(max) == std::future_status::ready) return true;
  check_time();
  return false;
}

void CheckpointSaver::check_time() {
  const double seconds = clock_.seconds();
  if (run_.limit_seconds <= 0.0 || seconds <= run_.limit_seconds) return;
  fail(ExitCode::kIo,
       "rank 0 on {} has been writing {} for {:.0f} s, longer than {} allows: "
       "its disk or file server may hang. Checkpoints that were saved before are intact, "
       "and the same command resumes from the newest. Check that the disk can be written; "
       "if it is only slow, raise the variable (seconds; 0: no limit)",
       host_name(), path_, seconds, kSaveTimeoutVariable);
}

bool CheckpointSaver::settle() {
  try {
    while (!wait(kLook)) {
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string CheckpointSaver::last_verified() {
  if (settle()) last_verified_ = written_;
  return last_verified_;
}

void CheckpointSaver::check_folder() const {
  if (run_.folder != nullptr) run_.folder->check();
}

void CheckpointSaver::write(const std::string& provenance, const std::optional<Best>& best) {
  try {
    check_folder();
    write_sound(provenance);
    check_folder();
    if (best) {
      write_best(run_.model_dir, {.checkpoint = written_,
                                  .metric = best->metric,
                                  .value = best->value,
                                  .signature = best->signature});
    }
    check_folder();
    prune_checkpoints(run_.model_dir, std::max(run_.keep, kMinKept));
  } catch (const data::DataError&) {
    check_folder();  // the cause of the failure, if the folder is another one
    throw;
  }
}

void CheckpointSaver::write_sound(const std::string& provenance) {
  if (const std::string fault = fault_in(snapshot_); !fault.empty()) {
    fail(ExitCode::kDiverged, "training diverged: after step {} there is {}. That state is not saved. {}",
         snapshot_.state().step, fault, advice_after_divergence(written_, run_.lower_rate));
  }
  // With less, HDF5 fails in the middle and reports a disk error.
  require_memory_room(kRoomForSaving, "saving a checkpoint");
  // A start from the checkpoint continues after its lines, and would never write them again.
  data::sync_file(run_.model_dir + "/metrics.jsonl");
  written_ = write_checkpoint(run_.model_dir, snapshot_, run_.config, run_.tokenizers, provenance);
}

}  // namespace ventris
