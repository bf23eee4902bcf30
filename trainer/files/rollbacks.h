// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ventris {

/// A run that diverged went back to a checkpoint, and on from there with a lower learning rate.
struct Rollback {
  int64_t from_step = 0;  // the last one that was undone
  int64_t begin = 0;      // of the spike: its first step
  int64_t to_step = 0;    // of the checkpoint
  double rate = 1.0;      // factor of the learning rate of all later steps
  std::string what = {};  // that was seen
  bool pending = false;   // later checkpoints may still be there, and the log may not have it yet
};

/// The rollbacks of a run, in rollbacks.json of its folder: the file is written before anything is undone, so
/// that a run which is killed meanwhile goes back at its next start. Its order is that of time. Throws
/// Error(kIo) if it cannot be read or written, Error(kBadData) if it is not such a file, and
/// data::NewerFormat if it is of a later version of the program.
std::vector<Rollback> read_rollbacks(const std::string& model_dir);
void write_rollbacks(const std::string& model_dir, const std::vector<Rollback>& rollbacks);

/// The factor of the learning rate by all that went back to the checkpoint of `step`.
double rate_from(const std::vector<Rollback>& rollbacks, int64_t step);

/// The same as text, to be sent to other ranks.
std::string to_json(const std::vector<Rollback>& rollbacks);
std::vector<Rollback> rollbacks_from_json(const std::string& text, const std::string& where);

/// Removes the checkpoints after that to which a pending rollback goes, if there is one.
void remove_undone_checkpoints(const std::string& model_dir);

/// The newest checkpoint of the folder that is at least kSoundSteps older than the begin of a spike, and is
/// of a multiple of `save_every` steps: others are there only if the run was stopped, which must not change
/// its bits. "" if there is none.
inline constexpr int64_t kSoundSteps = 10;
std::string checkpoint_before_spike(const std::string& model_dir, int64_t begin, int64_t save_every);

}  // namespace ventris
