// SPDX-License-Identifier: Apache-2.0
#include "trainer/resumed_start.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "comm/communicator.h"
#include "data/files/file_io.h"
#include "trainer/files/run_status.h"
#include "trainer/program_version.h"

namespace ventris {
namespace {

// A line of the log stays far below kMaxJsonBytes.
constexpr size_t kMaxMessageBytes = 2000;

}  // namespace

ResumedStart describe_resumed_start(const Communicator& communicator, const std::string& model_dir,
                                    const std::string& checkpoint, const std::string& device, int64_t step,
                                    int64_t last_logged) {
  const std::vector<int> host_of_rank = communicator.hosts();
  ResumedStart start = {
      .step = step,
      .checkpoint = data::without_folder(checkpoint),
      .program = program_name_and_version(),
      .device = device,
      .ranks = communicator.size(),
      .hosts = static_cast<int>(std::set<int>(host_of_rank.begin(), host_of_rank.end()).size()),
      .lost_steps = std::max<int64_t>(last_logged - step, 0)};
  const std::optional<StatusRecord> before = read_status(model_dir);
  if (!before) return start;
  // This start holds the folder, so no other process runs there.
  const bool was_killed = before->state == "running";
  start.previous_state = was_killed ? "killed" : before->state;
  start.previous_message = before->message.substr(0, kMaxMessageBytes);
  if (was_killed) return start;
  start.previous_exit_code = before->exit_code;
  // The step of a failure may not have been completed.
  if (before->state == "failed") start.lost_steps = std::max(start.lost_steps, before->step - 1 - step);
  return start;
}

}  // namespace ventris
