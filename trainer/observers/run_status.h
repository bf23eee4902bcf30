// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/io/folder_lock.h"
#include "trainer/observer.h"

namespace ventris {

/// The contents of status.json of a run folder (docs/formats.md).
struct StatusRecord {
  std::string state = {};  // running, done, stopped or failed
  int exit_code = 0;
  bool retryable = false;
  int64_t step = 0;
  std::string last_checkpoint = {};
  std::string message = {};
  std::string host = {};
  int64_t pid = 0;
  int rank = 0;
  int ranks = 1;
  std::string started = {};
  std::string ended = {};

  /// The step of last_checkpoint, or -1.
  int64_t saved_step() const;
};

/// Whether a restart of the same command may succeed, after a run that ended with this code: one of the
/// program's, or 128 plus the number of a signal. `begun`: training had begun, so options, corpus and ranks
/// had been checked.
bool is_worth_restarting(int exit_code, bool begun);

/// Updates status.json of a run folder: rank 0 writes it when training begins and after each checkpoint, and
/// the rank that reports the end or failure of the run writes the final state. Nothing is written before
/// on_start(), so that a refused start leaves the file unchanged, nor after the folder at that path was
/// replaced. A file that cannot be written is left unchanged without an exception.
class RunStatus final : public Observer {
 public:
  /// Writes "running", on rank 0.
  void on_start(const RunStart& start) override;
  bool begun() const { return !model_dir_.empty(); }
  /// Does not write the file.
  void on_step(int64_t step) override { record_.step = step; }
  /// Writes, on rank 0, that this checkpoint exists.
  void on_save(const SavedCheckpoint& saved) override;
  /// Writes the end of the run, on the rank that calls: done (0), stopped (75) or failed.
  void end(int exit_code, const std::string& message);

 private:
  void write() const;

  std::string model_dir_;
  std::optional<data::FolderIdentity> folder_;
  StatusRecord record_;
};

/// The record of a run folder; empty if there is none, or it cannot be read. Throws data::NewerFormat.
std::optional<StatusRecord> read_status(const std::string& model_dir);

}  // namespace ventris
