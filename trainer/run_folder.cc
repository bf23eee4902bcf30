#include "trainer/run_folder.h"

#include <unistd.h>

#include <optional>

#include "backend/error.h"
#include "comm/affinity.h"
#include "comm/communicator.h"
#include "comm/process.h"
#include "data/folders.h"
#include "trainer/progress.h"
#include "trainer/run_status.h"

namespace ventris {
namespace {

void check_no_live_run(const std::string& folder) {
  const std::optional<StatusRecord> status = read_status(folder);
  if (!status || status->state != "running" || status->host != host_name() || status->pid == ::getpid())
    return;
  const std::optional<Process> other = process_of(static_cast<pid_t>(status->pid));
  const std::optional<Process> self = process_of(::getpid());
  if (!other || !self || other->name != self->name) return;
  fail(ExitCode::kCannotCreate,
       "the folder {} is in use by process {} on this host, as status.json there says. Wait for the end of "
       "that "
       "run, or give another folder",
       folder, status->pid);
}

}  // namespace

std::unique_ptr<data::FolderLock> hold_run_folder(const Communicator& communicator, const std::string& folder,
                                                  Progress& progress) {
  if (communicator.rank() != 0) return nullptr;
  data::make_folders(folder);
  auto lock = std::make_unique<data::FolderLock>(folder);
  if (lock->held()) return lock;
  check_no_live_run(folder);
  progress.warning(
      fmt::format("the file system of {} has no locks (flock: {}): a second run there is kept out by the "
                  "file .lease alone, "
                  "which this one renews; after a kill the next start waits until that is 30 s old",
                  folder, lock->why_not_held()));
  return lock;
}

}  // namespace ventris
