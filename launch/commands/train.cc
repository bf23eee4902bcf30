// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <poll.h>
#include <semaphore.h>

#include <array>
#include <atomic>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "backend/device/error.h"
#include "comm/communicator.h"
#include "comm/mpi_environment.h"
#include "data/error.h"
#include "data/io/file_io.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/train_command_options.h"
#include "launch/output.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/corpus_watch.h"
#include "trainer/json_text.h"
#include "trainer/observers/run_status.h"
#include "trainer/options/train_rows.h"
#include "trainer/text.h"
#include "trainer/train.h"

namespace ventris {

namespace {

/// During its lifetime, a crash caused by a change of the mapped corpus ends the job as an input error, with
/// exit code 65 and the message of CorpusWatch: SIGBUS beyond the end of a truncated file, SIGSEGV from wrong
/// offsets, and errors of the program's own checks. Other crashes are passed to the previous handler. Must be
/// created before the corpus is opened. At most one object.
class CorpusFaults {
 public:
  CorpusFaults(const std::string& corpus, Job& job, std::string command);
  ~CorpusFaults();
  CorpusFaults(const CorpusFaults&) = delete;
  CorpusFaults& operator=(const CorpusFaults&) = delete;

  /// Calls work(); if it throws an internal error, or one of bad data or of reading, and the corpus changed,
  /// throws Error(kBadData) of that instead.
  void run(const std::function<void()>& work) const;

 private:
  void wait_for_fault();
  [[noreturn]] void end_job(const Error& error);

  const CorpusWatch watch_;
  Job& job_;
  const std::string command_;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

constexpr std::array kFaults = {SIGBUS, SIGSEGV};

// State of the handler, which runs on the faulting thread.
sem_t fault_came;
std::atomic<bool> corpus_is_intact = false;
std::array<struct sigaction, kFaults.size()> before;

void restore_actions() {
  for (size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &before[i], nullptr);
}

/// The thread that reads the corpus waits while another one checks it; if it may continue, the fault occurs
/// again, with the previous action. A signal sent by a process is not a fault.
void hold_faulting_thread(int number, siginfo_t* signal, void*) {
  constexpr int kLookEveryMs = 5;
  if (signal->si_code <= 0) {
    restore_actions();
    ::raise(number);  // which waits until this handler returns
    return;
  }
  ::sem_post(&fault_came);
  while (!corpus_is_intact) ::poll(nullptr, 0, kLookEveryMs);
}

CorpusFaults::CorpusFaults(const std::string& corpus, Job& job, std::string command)
    : watch_(corpus), job_(job), command_(std::move(command)) {
  ::sem_init(&fault_came, 0, 0);
  corpus_is_intact = false;
  thread_ = std::thread([this] { wait_for_fault(); });
  struct sigaction action {};
  action.sa_sigaction = hold_faulting_thread;
  action.sa_flags = SA_SIGINFO;
  for (size_t i = 0; i < kFaults.size(); ++i) ::sigaction(kFaults[i], &action, &before[i]);
}

CorpusFaults::~CorpusFaults() {
  restore_actions();
  over_ = true;
  ::sem_post(&fault_came);
  thread_.join();
}

void CorpusFaults::wait_for_fault() {
  while (::sem_wait(&fault_came) != 0) {
  }
  if (over_) return;
  try {
    watch_.check();
  } catch (const Error& error) {
    end_job(error);
  } catch (const std::exception&) {
    // The file cannot be read: a disk error.
  }
  restore_actions();
  corpus_is_intact = true;
}

void CorpusFaults::end_job(const Error& error) {
  const MpiEnvironment& environment = job_.environment;
  const std::string place = environment.size() > 1
                                ? fmt::format("[rank {} on {}] ", environment.rank(), environment.host())
                                : std::string();
  const int code = static_cast<int>(error.code());
  tell(fmt::format("{}ventris {}: error: {}", place, command_, error.what()));
  job_.status.end(code, error.what());
  environment.abort(code);
}

void CorpusFaults::run(const std::function<void()>& work) const {
  try {
    work();
  } catch (const data::DataError& error) {
    using data::ErrorKind;
    if (error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kIo) watch_.check();
    throw;
  } catch (const Error& error) {
    if (error.code() == ExitCode::kInternal) watch_.check();
    throw;
  } catch (const std::exception&) {
    watch_.check();
    throw;
  }
}

// The options that a preset sets, in the form that --config reads.
void show_preset(const std::string& name) {
  std::string text = fmt::format(
      "# The preset {}. A file like this one can be given to --config.\npreset = {}\n", name, name);
  std::string group;
  const TrainRows rows(preset_options(name));
  for (const Option& option : rows.table.options()) {
    if (!option.has(kByPreset)) continue;
    if (option.group != group) text += fmt::format("\n# {}\n", group = option.group);
    text += fmt::format("{} = {}\n", option.name, option.show());
  }
  write_output(text);
}

nlohmann::json profile_json(const TrainProfile& profile) {
  nlohmann::json phases = nlohmann::json::array();
  for (const TrainProfile::Row& row : profile.phases) {
    phases.push_back({{"phase", row.name}, {"ms", 1e3 * row.seconds}});
    if (row.flops > 0.0 && row.seconds > 0.0)
      phases.back()["model_flops_per_second"] = row.flops / row.seconds;
  }
  return {{"steps", profile.steps},
          {"phases", phases},
          {"other_ms", 1e3 * profile.other_seconds()},
          {"step_ms", 1e3 * profile.step_seconds},
          {"model_flops_per_second", profile.step_flops_per_second()},
          {"product_size", profile.product_size},
          {"product_precision", name_of(profile.product_precision)},
          {"product_flops_per_second", profile.product_flops_per_second},
          {"mfu", profile.mfu()}};
}

// The result is in the run folder: failing to print it is only a warning.
void write_result(const Job& job, const std::string& text) {
  try {
    write_output(text);
  } catch (const Error& error) {
    say(job, fmt::format("Warning: the result could not be written ({}). The run itself is not affected.",
                         error.what()));
  }
}

/// No input may be overwritten: refuses one that has the name of a file of the run, in its folder.
void check_inputs(const TrainOptions& train) {
  const auto check = [&](const char* option, const std::string& input) {
    std::error_code error;  // of a missing file
    if (!is_name_of_run_file(data::without_folder(input)) ||
        !std::filesystem::equivalent(data::folder_of(input), train.model_dir, error)) {
      return;
    }
    fail(ExitCode::kUsage,
         "--{} {}: the run writes a file of this name to --model-dir; move or rename this file", option,
         input);
  };
  check("corpus", train.corpus);
  if (step_of_checkpoint(train.initial_model) < 0) check("init", train.initial_model);
  for (const std::string& file : train.initial_embeddings) check("init-embeddings", file);
  if (data::without_folder(train.mix) != data::without_folder(path_of_config(train.model_dir)))
    check("mix", train.mix);
}

int run_train(TrainCommandOptions& options, Job& job) {
  TrainOptions& train = options.train;
  if (train.corpus.empty()) fail(ExitCode::kUsage, "--corpus is required; 'ventris prepare' makes one");
  if (train.model_dir.empty()) fail(ExitCode::kUsage, "--model-dir is required: the folder for checkpoints");
  check_inputs(train);
  take_mix(train);
  job.communicator.limit_waits(train.comm_timeout);
  const std::unique_ptr<Context> context = make_context(job, train.device, train.threads);
  say_if_built_without_cuda(job, train.device);
  const CorpusFaults faults(train.corpus, job, "train");
  TrainResult result;
  faults.run(
      [&] { result = ventris::train(*context, job.communicator, train, job.command_line, &job.status); });
  const bool stopped = result.end == TrainEnd::kStoppedOnRequest;
  if (job.is_rank_zero()) {
    job.status.end(static_cast<int>(stopped ? ExitCode::kStopped : ExitCode::kDone),
                   fmt::format("{} at step {}", stopped ? "stopped on request" : "trained", result.step));
  }
  if (result.profile) say(job, profile_table(*result.profile));
  if (job.is_rank_zero() && options.json) {
    nlohmann::json object = {{"end", stopped ? "stopped" : "done"},
                             {"step", result.step},
                             {"last_checkpoint", result.last_checkpoint},
                             {"target_tokens_per_second", result.target_tokens_per_second},
                             {"model_flops_per_second", result.flops_per_second},
                             {"peak_memory_mib", result.peak_memory_bytes >> 20}};
    if (result.best_step > 0) {
      object["best_step"] = result.best_step;
      object["best_" + result.valid_metric] = result.best_metric;
    }
    if (result.profile) object["profile"] = profile_json(*result.profile);
    write_result(job, json_text(object) + "\n");
  } else if (job.is_rank_zero()) {
    std::string text = fmt::format("{} at step {}; last checkpoint {}\n", stopped ? "stopped" : "trained",
                                   grouped(result.step), result.last_checkpoint);
    if (result.best_step > 0) {
      text += fmt::format("best valid {} {:.4g} at step {}\n", result.valid_metric, result.best_metric,
                          grouped(result.best_step));
    }
    write_result(job, text);
  }
  if (stopped) {
    say(job,
        train.resume == "never"
            ? "Stopped on request; the state is saved. The same command with --resume auto resumes from here."
            : "Stopped on request; the state is saved. The same command resumes from here.");
    return static_cast<int>(ExitCode::kStopped);
  }
  say(job, fmt::format("Next: ventris translate --model {0}, "
                       "or ventris evaluate --model {0} --source FILE --reference FILE",
                       shell_word(train.model_dir)));
  return 0;
}

}  // namespace

Command train_command() {
  const auto options = std::make_shared<TrainCommandOptions>();
  Command command;
  command.name = "train";
  command.summary = "trains a Transformer, on one process or on all ranks of mpirun";
  command.synopsis = "--corpus FILE --model-dir DIR [--preset tiny|small|base|big] [options]";
  command.description = {
      "Trains the Transformer of \"Attention Is All You Need\" on a corpus file of 'ventris prepare'. "
      "Started with mpirun or srun, all ranks train one model: each computes its share of every global "
      "batch, and gradients are summed during backward. Batches are the same for any number of ranks "
      "with the same --logical-shards, and a run can resume on any number of ranks.",
      "The run folder holds checkpoints (the newest and the best), metrics.jsonl with one JSON object "
      "per log interval and one per validation, and the resolved configuration with the command. "
      "On a terminal one live line shows the progress; a log gets one line per interval.",
      "Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP (a lost terminal, unless nohup has it ignored) "
      "save a checkpoint, between two micro-batches, and end the program with exit code 75; "
      "a second Ctrl-C ends it immediately. The same command resumes from there and reaches "
      "the same parameters, bit for bit, as an uninterrupted run on the same number of ranks. "
      "It refuses another value of an option that is marked 'fixed' below, and does not read those for new runs. "
      "mpirun forwards SIGUSR1 to the ranks, and launch/supervise.sh converts the other signals to SIGUSR1."};
  command.examples = {
      {"train --corpus corpus.h5 --model-dir model --preset tiny", "One process:"},
      {"mpirun -np 2 ventris train --corpus corpus.h5 --model-dir model --preset tiny --max-steps 8000",
       "Two ranks:"},
      {"mpirun -np 16 --hostfile hosts ventris train --corpus /shared/corpus.h5 --model-dir /shared/model",
       "Several hosts, with the corpus and the run folder on a shared disk:"},
      {"train --show-preset base > base.ini",
       "Writes the settings of a preset, to edit and give to --config:"}};
  command.exit_codes = {{69, "the device or the transport between ranks is not available"},
                        {75, "stopped on request, checkpoint saved; start again to resume"},
                        {76, "the ranks disagree on program, options, corpus or parameters"},
                        {77, "training diverged: NaN or Inf in ten steps, or in a state to save"}};
  command.many_ranks = true;
  command.options.group("Preset");
  command.options
      .choice("show-preset", options->show_preset, preset_names(),
              "Prints the settings of a preset in the format of --config, and ends.")
      .show = [] { return std::string(); };
  add_train_options(*options, command);
  command.run = [options](Job& job) {
    if (options->show_preset.empty()) return run_train(*options, job);
    if (job.is_rank_zero()) show_preset(options->show_preset);
    return 0;
  };
  return command;
}

}  // namespace ventris
