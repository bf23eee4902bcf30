// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>

#include "backend/error.h"
#include "comm/affinity.h"
#include "comm/guard.h"
#include "data/files/file_format.h"
#include "launch/child_process.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/launcher_watch.h"
#include "launch/leftovers.h"
#include "launch/marian_reader.h"
#include "launch/output.h"
#include "launch/parse.h"
#include "launch/train_option_table.h"
#include "launch/train_option_table_json.h"
#include "trainer/files/run_status.h"

namespace ventris {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds kLongestPause = 300s;
constexpr milliseconds kLook = 1s;
constexpr milliseconds kLookBeforeTraining = 200ms;  // ranks may exist only for a moment
constexpr int kKilled = 128 + SIGKILL;
constexpr int kFirstOwnCode = static_cast<int>(ExitCode::kUsage);  // lower codes are those of launchers
constexpr int kLastOwnCode = static_cast<int>(ExitCode::kBadConfiguration);

struct SuperviseCommandOptions {
  int max_restarts = 10;
  double back_off = 5.0;
  double launcher_timeout = 20.0;
  std::string model_dir;
  std::vector<std::string> words;
};

void log(const std::string& message) {
  tell(fmt::format("{:%Y-%m-%d %H:%M:%S}  supervise: {}", fmt::localtime(std::time(nullptr)), message));
}

/// The value of an option in a command, or "".
std::string value_in(const std::vector<std::string>& words, const std::string& option) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
  }
  return "";
}

/// The run folder that 'ventris train' takes from a file of --config, or "". Does not read a pipe.
std::string model_dir_in_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  TrainCommandOptions options;
  Command train;
  train.name = "train";
  train.options_from_json = train_options_of;
  train.options_from_yaml = marian_reader(MarianUse::kTraining, options.config_remarks);
  add_train_options(options, train.options);
  try {
    parse_options(train, {"--config", path});
  } catch (const Error&) {  // of an option of the command, or one that training will report
  }
  return options.train.model_dir;
}

std::string model_dir_of(const SuperviseCommandOptions& options) {
  if (!options.model_dir.empty()) return options.model_dir;
  const std::string given = value_in(options.words, "--model-dir");
  return given.empty() ? model_dir_in_file(value_in(options.words, "--config")) : given;
}

/// A start of the command and its end.
struct Attempt {
  CommandEnd end = {};
  std::optional<StatusRecord> status = {};  // written by it
  bool stopped = false;                     // a signal requested the end
  bool launcher_hung = false;               // and was ended
  std::string not_started;                  // the reason if there was no process, or ""
};

/// The times at which a stop is repeated: mpirun drops signals before its ranks have started. Ranks react
/// only to the first.
class RepeatedStop {
 public:
  bool is_due() {
    if (Clock::now() < next_) return false;
    pause_ *= 2;
    next_ = Clock::now() + pause_;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::duration pause_ = std::chrono::seconds(1);
  Clock::time_point next_ = Clock::now() + pause_;
};

class Supervisor {
 public:
  explicit Supervisor(const SuperviseCommandOptions& options) : options_(options) {
    options_.model_dir = model_dir_of(options_);
    if (options_.model_dir.empty()) {
      log("the command names no run folder (--model-dir), so new checkpoints cannot be detected; "
          "give it to 'supervise' itself: ventris supervise --model-dir DIR -- COMMAND");
    }
    if (const auto status = status_now()) saved_step_ = status->saved_step();
    // Open MPI 4 would sleep twice this many seconds between the end of one rank and that of the others. A
    // stop reaches the ranks as SIGUSR1 and does not need it. A value set by the user is kept.
    ::setenv("OMPI_MCA_odls_base_sigkill_timeout", "0", /*replace=*/0);
  }

  int run() {
    clean_up();
    for (int restarts = 0;;) {
      const Attempt attempt = one_attempt();
      if (attempt.end.code == 0) return 0;
      const std::string reason = describe(attempt);
      if (!is_retryable(attempt)) {
        log(fmt::format("giving up: {}", reason));
        return attempt.end.code;
      }
      if (attempt.stopped) {
        log(fmt::format("{}; stopped on request, the same command resumes training", reason));
        return static_cast<int>(ExitCode::kStopped);
      }
      if (made_progress(attempt)) restarts = 0;
      if (restarts == options_.max_restarts) {
        log(fmt::format("giving up after {} restarts without a new checkpoint: {}", restarts, reason));
        return attempt.end.code;
      }
      const auto pause = pause_before(restarts++);
      log(fmt::format("{}; restart {} of {} in {:g} s", reason, restarts, options_.max_restarts,
                      std::chrono::duration<double>(pause).count()));
      if (const int signal = supervision_.pause(pause)) {
        log(fmt::format("stopped on request ({}) before the restart", name_of(signal)));
        return static_cast<int>(ExitCode::kStopped);
      }
    }
  }

 private:
  std::optional<StatusRecord> status_now() const {
    if (options_.model_dir.empty()) return std::nullopt;
    try {
      return read_status(options_.model_dir);
    } catch (const data::NewerFormat&) {  // the command may be of a later version; ours refuses the file
      return std::nullopt;
    }
  }

  Attempt one_attempt() {
    Attempt attempt;
    const std::optional<StatusRecord> before = status_now();
    try {
      supervision_.start(options_.words);
    } catch (const Error& error) {  // a lack of processes or descriptors may be temporary
      if (!started_ || error.code() == ExitCode::kMissingInput) throw;
      attempt.end = {.code = static_cast<int>(error.code())};
      attempt.not_started = error.what();
      return attempt;
    }
    started_ = true;
    log(fmt::format("started {} as process {}", fmt::join(options_.words, " "), supervision_.pid()));
    LauncherWatch watch;
    std::optional<RepeatedStop> repeated;
    while (!supervision_.end()) {
      const int signal = supervision_.wait_for_end(status_since(before) ? kLook : kLookBeforeTraining);
      if (signal == 0) {
        if (!supervision_.end() && end_idle_launcher(watch, before)) attempt.launcher_hung = true;
        if (repeated && repeated->is_due()) supervision_.send(SIGUSR1);
        continue;
      }
      // mpirun forwards SIGUSR1 and waits; on SIGTERM and SIGINT it leaves its ranks no time to save. A lost
      // terminal may send SIGHUP more than once.
      const bool hurries = attempt.stopped && (signal == SIGTERM || signal == SIGINT);
      const int passed = hurries ? SIGTERM : SIGUSR1;
      log(fmt::format("received {}; forwarded as {}", name_of(signal), name_of(passed)));
      supervision_.send(passed);
      attempt.stopped = true;
      repeated = hurries ? std::nullopt : std::optional<RepeatedStop>(std::in_place);
    }
    attempt.end = *supervision_.end();
    clean_up();
    attempt.status = status_since(before);
    begun_ = begun_ || attempt.status;
    const bool run_ended = attempt.status && attempt.status->state != "running";
    if (attempt.launcher_hung && run_ended && attempt.end.code == kKilled)
      attempt.end = {.code = attempt.status->exit_code};
    return attempt;
  }

  /// The status written by another start of the run than that of `before`.
  std::optional<StatusRecord> status_since(const std::optional<StatusRecord>& before) const {
    std::optional<StatusRecord> status = status_now();
    if (status && before && status->started == before->started && status->pid == before->pid) status.reset();
    return status;
  }

  /// Ends a launcher whose ranks are gone, unless rank 0 may be running on another host. Returns whether it
  /// did.
  bool end_idle_launcher(LauncherWatch& watch, const std::optional<StatusRecord>& before) const {
    if (options_.launcher_timeout == 0.0) return false;
    const std::optional<StatusRecord> status = status_since(before);
    const std::optional<pid_t> launcher = watch.idle_launcher(options_.launcher_timeout, status.has_value());
    if (!launcher) return false;
    const bool of_this_host = !status || status->host == host_name();
    if (status && status->state == "running" &&
        (!of_this_host || state_of_process(static_cast<int>(status->pid)) != "gone")) {
      return false;
    }
    log(fmt::format("the launcher, process {}, has had no rank on this host for {:g} s; it is killed",
                    *launcher, options_.launcher_timeout));
    ::kill(*launcher, SIGKILL);
    return true;
  }

  /// Ends the remaining processes of the command, and removes files of killed jobs.
  void clean_up() {
    const std::vector<pid_t> ended = supervision_.end_what_is_left();
    if (!ended.empty())
      log(fmt::format("ended {} processes left by the command: {}", ended.size(), fmt::join(ended, ", ")));
    const std::vector<std::string> removed = remove_leftovers_of_jobs();
    if (!removed.empty()) log(fmt::format("removed leftovers of killed jobs: {}", fmt::join(removed, ", ")));
  }

  bool is_retryable(const Attempt& attempt) const {
    if (!attempt.not_started.empty()) return true;
    const int code = attempt.end.code;
    if (attempt.status && attempt.status->exit_code == code) return attempt.status->retryable;
    // A launcher that lost a host has its own code; one with wrong options never starts training.
    if (code < kFirstOwnCode) return begun_ || attempt.stopped;
    return is_worth_restarting(code, attempt.status.has_value());
  }

  bool made_progress(const Attempt& attempt) {
    if (!attempt.status || attempt.status->saved_step() <= saved_step_) return false;
    saved_step_ = attempt.status->saved_step();
    return true;
  }

  milliseconds pause_before(int restarts) const {
    constexpr int kMaxDoublings = 20;
    const double seconds = options_.back_off * static_cast<double>(1 << std::min(restarts, kMaxDoublings));
    return std::min(kLongestPause, milliseconds(static_cast<int64_t>(1e3 * std::min(seconds, 1e6))));
  }

  static std::string name_of(int signal) {
    const char* name = ::sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
  }

  std::string describe(const Attempt& attempt) const {
    if (!attempt.not_started.empty()) return attempt.not_started;
    const int code = attempt.end.code;
    std::string text =
        attempt.end.by_signal ? fmt::format("the command was ended by {}", name_of(code - 128))
        : code > kLastOwnCode && code > 128
            ? fmt::format("the command ended with {}, one of its processes by {}", code, name_of(code - 128))
            : fmt::format("the command ended with {}", code);
    if (!attempt.status) return text + (begun_ ? "" : " before training began");
    const StatusRecord& status = *attempt.status;
    if (status.state == "running") {
      return text + fmt::format("; the run was killed, its newest checkpoint is {}",
                                status.last_checkpoint.empty() ? "none" : status.last_checkpoint);
    }
    return text + fmt::format("; {} at step {}: {}", status.state, status.step, status.message);
  }

  SuperviseCommandOptions options_;
  Supervision supervision_;
  int64_t saved_step_ = -1;
  bool begun_ = false;    // training began in some attempt
  bool started_ = false;  // the command was started at least once
};

}  // namespace

Command supervise_command() {
  const auto options = std::make_shared<SuperviseCommandOptions>();
  Command command;
  command.name = "supervise";
  command.summary = "restarts training until it is done";
  command.synopsis = "[options] -- COMMAND...";
  command.description = {
      "Runs the command, usually 'mpirun ... ventris train ...', "
      "and restarts it after an end that a restart may cure: a rank or its host was lost, "
      "a rank was killed, a disk was full, a stop was not requested from supervise. "
      "Training resumes from its newest checkpoint. Before each restart, supervise ends "
      "remaining processes of the command on this host, including an mpirun whose ranks are gone, "
      "and removes the shared memory and session folders left by killed jobs of Open MPI. Permanent errors, "
      "such as a wrong option or a damaged corpus, end it immediately (docs/exit-codes.md).",
      "The pause before a restart doubles, up to five minutes, until there is a new checkpoint; "
      "a new checkpoint resets the number of restarts. "
      "status.json of the run folder shows the progress of training.",
      "SIGTERM, SIGINT (Ctrl-C), SIGUSR1 and SIGHUP (a lost terminal, unless nohup has it ignored) "
      "reach the command as SIGUSR1: ventris saves, mpirun waits for it, and the exit code is 75. "
      "A second SIGTERM or SIGINT reaches it as SIGTERM. If supervise itself is killed, "
      "the command also gets SIGUSR1. Each event is one line on the standard error."};
  command.examples = {
      {"ventris supervise -- mpirun -np 2 ventris train --corpus corpus.h5 --model-dir model --preset tiny",
       "Training that resumes after failures:"}};
  command.common = {{"max-restarts", "without a new checkpoint"},
                    {"back-off", "pause before the first restart"},
                    {"launcher-timeout", "limit for mpirun without ranks, in seconds"},
                    {"model-dir", "run folder; default: that of the command"}};
  command.exit_codes = {{75, "stopped on request; start again to resume"}};
  command.options.integer(
      "max-restarts", options->max_restarts, {.min = 0, .max = 1000000},
      "Restarts without a new checkpoint before it gives up, with the exit code of the last end.");
  command.options.number("back-off", options->back_off, {.min = 0, .max = 300},
                         "Seconds before the first restart.");
  command.options.number(
      "launcher-timeout", options->launcher_timeout, {.min = 0, .max = 1e7},
      "Seconds that mpirun may continue after the last rank on this host has ended; 0: no limit.");
  command.options.text(
      "model-dir", "DIR", options->model_dir,
      "Run folder of the training. Default: the --model-dir of the command, or of its --config file.");
  command.options.operands("COMMAND", options->words, "The command with its options, after '--'.")
      .is_command = true;
  command.run = [options](Job&) {
    if (options->words.empty()) fail(ExitCode::kUsage, "no command given; give it after '--'");
    return Supervisor(*options).run();
  };
  return command;
}

}  // namespace ventris
