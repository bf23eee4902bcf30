// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher_watch.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "launch/child_process.h"
#include "trainer/launcher.h"

namespace ventris {

std::optional<pid_t> LauncherWatch::idle_launcher(double seconds, bool begun) {
  const std::map<pid_t, Process> processes = all_processes();
  const auto self = processes.find(getpid());
  if (self == processes.end()) return std::nullopt;
  const std::vector<pid_t> below = descendants_of(getpid(), processes);
  std::set<pid_t> busy;
  for (const pid_t pid : below) {
    const Process& process = processes.at(pid);
    if (begun && is_mpirun(process.name)) launchers_.try_emplace(pid);
    const auto parent = processes.find(process.parent);
    if (process.ended() || parent == processes.end() || !is_mpirun(parent->second.name)) continue;
    busy.insert(process.parent);
    if (process.name == self->second.name) launchers_.try_emplace(process.parent);
  }
  std::erase_if(launchers_, [&](const auto& launcher) {
    return std::find(below.begin(), below.end(), launcher.first) == below.end() ||
           processes.at(launcher.first).ended();
  });
  for (auto& [launcher, without_children] : launchers_) {
    if (busy.contains(launcher)) without_children.restart();
    if (without_children.seconds() > seconds) return launcher;
  }
  return std::nullopt;
}

}  // namespace ventris
