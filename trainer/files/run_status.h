#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "data/files/folder_lock.h"

namespace ventris {

/// What status.json of a run folder says (docs/formats.md).
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

/// Whether the same command may do better when it is started again, after a run that ended with this code:
/// one of the program's, or 128 and the number of a signal. `begun`: training had begun, so that options,
/// corpus and ranks had been found good.
bool is_worth_restarting(int exit_code, bool begun);

/// Keeps status.json of a run folder: rank 0 writes it when training begins and whenever a checkpoint is
/// there, and the rank that tells of the end of the run, or of its failure, writes the last word. Before
/// begin() nothing is written, so a run that is refused leaves what describes the run it found; nor after the
/// folder at that path has become another one. A file that cannot be written is left as it is and nothing is
/// thrown: the end of the run counts.
class RunStatus {
 public:
  struct Place {
    std::string model_dir;
    std::string host;
    int rank = 0;
    int ranks = 1;
  };

  /// Writes "running", on rank 0.
  void begin(const Place& place, int64_t step, const std::string& last_checkpoint);
  bool begun() const { return !model_dir_.empty(); }
  /// Training went as far as `step`; a file is not written for that.
  void reach(int64_t step) { record_.step = step; }
  /// Writes, on rank 0, that this checkpoint is there.
  void saved(int64_t step, const std::string& last_checkpoint);
  /// Writes the end of the run, on the rank that calls: done (0), stopped (75) or failed.
  void end(int exit_code, const std::string& message);

 private:
  void write() const;

  std::string model_dir_;
  std::optional<data::FolderIdentity> folder_;
  StatusRecord record_;
};

/// The record of a run folder; nothing where there is none, or it cannot be read. Throws data::NewerFormat.
std::optional<StatusRecord> read_status(const std::string& model_dir);

}  // namespace ventris
