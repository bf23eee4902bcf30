// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "backend/cpu/gemm_onednn.h"
#include "backend/device/device.h"
#include "backend/device/error.h"
#include "backend/device/instruction_set.h"
#include "comm/communicator.h"
#include "comm/guard.h"
#include "comm/mpi_environment.h"
#include "comm/nccl_library.h"
#include "data/error.h"
#include "data/io/hdf5_child.h"
#include "launch/command.h"
#include "launch/job.h"
#include "launch/options/completion.h"
#include "launch/options/help.h"
#include "launch/options/help_topics.h"
#include "launch/options/man_page.h"
#include "launch/options/parse.h"
#include "launch/options/spelling.h"
#include "launch/out_of_memory.h"
#include "launch/output.h"
#include "trainer/json_text.h"
#include "trainer/observers/run_status.h"
#include "trainer/program_version.h"
#include "trainer/rank_consistency.h"
#include "trainer/signals.h"
#include "trainer/text.h"

namespace ventris {

namespace {

// Version, commit and what the program was built with, one line each, as --version prints them.
std::string version_text() {
  return fmt::format(
      "{}\n"
      "CPU:  yes, f32 and bf16, {}\n"
      "ISA:  {}, of {}\n"
      "MPI:  {}\n"
      "CUDA: {}\n"
      "NCCL: {}\n",
      program_name_and_version(), gemm_library(), instruction_set(),
      fmt::join(built_instruction_sets(), ", "), mpi_library(), cuda_build(), nccl_library());
}

// The same as one JSON object: null for what the program was built without.
std::string version_json() {
  const auto unless_no = [](std::string text) {
    const std::string yes = "yes, ";
    if (text.starts_with(yes)) text = text.substr(yes.size());
    return text == "no" ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(text);
  };
  return json_text(nlohmann::ordered_json{{"version", program_version()},
                                          {"commit", program_commit()},
                                          {"cpu", gemm_library()},
                                          {"isa", instruction_set()},
                                          {"built_isa", built_instruction_sets()},
                                          {"mpi", unless_no(mpi_library())},
                                          {"cuda", unless_no(cuda_build())},
                                          {"nccl", unless_no(nccl_library())}}) +
         "\n";
}

// A failure of several ranks is reported by rank 0, which then ends the job; the others wait this long, so
// that there is one message, and report only if rank 0 did not.
constexpr std::chrono::seconds kRankZeroGracePeriod{3};

// Limit for the final write of status.json, on a disk that may hang.
constexpr double kFinalStatusTimeout = 5.0;  // seconds

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

// "did you mean 'train'?" or how to list the commands. `others` are meant as well.
std::string command_suggestion(const std::vector<Command>& commands, const std::string& word,
                               const std::vector<std::string>& others) {
  std::vector<std::string> names = others;
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest(word, names);
  return near.empty() ? "'ventris help' lists the commands" : fmt::format("did you mean '{}'?", near);
}

const Command& command_named(const std::vector<Command>& commands, const std::string& name) {
  for (const Command& command : commands) {
    if (command.name == name) return command;
  }
  fail(ExitCode::kUsage, "there is no command '{}'; {}", name, command_suggestion(commands, name, {}));
}

int help_command(const std::vector<Command>& commands, const std::vector<std::string>& words) {
  if (words.empty()) {
    write_output(program_help(commands));
    return 0;
  }
  if (words.front() == "--markdown") {
    write_output(markdown_reference(commands));
    return 0;
  }
  if (words.front() == "--commands") {
    for (const Command& command : commands) write_output(command.name + "\n");
    return 0;
  }
  if (words.front() == "--completion" && words.size() == 2) {
    write_output(completion(words[1], commands, help_topic_names()));
    return 0;
  }
  if (words.front() == "--man") {
    write_output(words.size() > 1 ? command_man_page(command_named(commands, words[1]))
                                  : program_man_page(commands));
    return 0;
  }
  for (const Command& command : commands) {
    if (command.name != words.front()) continue;
    const bool in_full = words.size() > 1 && (words[1] == "all" || words[1] == "--all");
    write_output(in_full ? command_help_in_full(command) : command_help(command));
    return 0;
  }
  for (const HelpTopic& topic : help_topics()) {
    if (topic.name != words.front()) continue;
    write_output(help_text_of(topic));
    return 0;
  }
  fail(ExitCode::kUsage, "there is no command or topic '{}'; {}", words.front(),
       command_suggestion(commands, words.front(), help_topic_names()));
}

// The preset whose values help shows; "" if the arguments name none.
std::string preset_of(const std::vector<std::string>& words) {
  const std::string option = "--preset";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(option + "=")) return words[i].substr(option.size() + 1);
    if (words[i] == option && i + 1 < words.size()) return words[i + 1];
  }
  return "";
}

int run_command(const Command& command, const std::vector<std::string>& words,
                const MpiEnvironment& environment, const std::string& command_line, RunStatus& status) {
  // After "--" follow operands.
  const auto end = std::find(words.begin(), words.end(), "--");
  const auto help = std::find_if(words.begin(), end, is_help);
  if (help != end) {
    const bool in_full = help + 1 != end && *(help + 1) == "all";
    if (command.before_store) command.before_store(preset_of(words));
    if (environment.rank() == 0)
      write_output(in_full ? command_help_in_full(command) : command_help(command));
    return 0;
  }
  parse_options(command, words);
  if (environment.size() > 1 && !command.many_ranks) {
    fail(ExitCode::kUsage, "this command is one process, but the job has {} ranks; start it without mpirun",
         environment.size());
  }
  const std::unique_ptr<Communicator> communicator = make_communicator(environment);
  Job job{environment, *communicator, command_line, status};
  if (command.alike_on_ranks) {
    check_equal_on_all_ranks(*communicator, "the command", command.name);
    check_same_options_on_all_ranks(*communicator, command.options);
  }
  return command.run(job);
}

int dispatch(const std::vector<std::string>& words, const MpiEnvironment& environment,
             const std::string& command_line, RunStatus& status) {
  const std::vector<Command> commands = all_commands();
  const std::string name = words.empty() ? "help" : words.front();
  const std::vector<std::string> rest(words.begin() + (words.empty() ? 0 : 1), words.end());
  const bool is_rank_zero = environment.rank() == 0;
  if (name == "--version" || name == "version") {
    const bool json = rest == std::vector<std::string>{"--json"};
    if (!json && !rest.empty())
      fail(ExitCode::kUsage, "{} takes --json and nothing else, not '{}'", name, rest.front());
    if (is_rank_zero) write_output(json ? version_json() : version_text());
    return 0;
  }
  if (is_help(name) || name == "help") return is_rank_zero ? help_command(commands, rest) : 0;
  for (const Command& command : commands) {
    if (command.name == name) return run_command(command, rest, environment, command_line, status);
  }
  fail(ExitCode::kUsage, "unknown command '{}'; {}", name,
       command_suggestion(commands, name, {"help", "version", "--help", "--version"}));
}

// The message of a failure, and the exit code.
struct Failure {
  int code;
  std::string message;  // empty: no message
  std::optional<std::chrono::milliseconds> patience =
      {};  // patience of this rank; default: kRankZeroGracePeriod
};

Failure describe_current_exception() {
  try {
    throw;
  } catch (const ClosedOutput&) {
    return {static_cast<int>(ExitCode::kIo), ""};
  } catch (const LateRanks& error) {
    return {static_cast<int>(error.code()), error.what(), error.patience()};
  } catch (const Error& error) {
    return {static_cast<int>(error.code()), error.what()};
  } catch (const data::DataError& error) {
    return {static_cast<int>(error.kind()), error.what()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(ExitCode::kInternal), out_of_memory_text()};
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return {static_cast<int>(ExitCode::kInternal), fmt::format("internal error: {}", error.what())};
    return {static_cast<int>(ExitCode::kUnavailable),
            "the system cannot start another thread; raise its limits (ulimit -v, "
            "ulimit -u) or use fewer --threads"};
  } catch (const std::exception& error) {
    return {static_cast<int>(ExitCode::kInternal), fmt::format("internal error: {}", error.what())};
  }
}

// Reports the failure once for the job and ends it on all ranks.
int report(const Failure& failure, const std::string& command, const MpiEnvironment& environment,
           RunStatus& status) {
  const bool many = environment.size() > 1;
  if (many && (failure.patience || environment.rank() != 0)) {
    end_at_sigterm();  // sent by the launcher after another rank has ended the job
    std::this_thread::sleep_for(failure.patience.value_or(kRankZeroGracePeriod));
  }
  if (!failure.message.empty()) {
    const std::string place =
        many ? fmt::format("[rank {} on {}] ", environment.rank(), environment.host()) : std::string();
    tell_error(fmt::format("{}ventris{}", place, command.empty() ? "" : " " + command), failure.message);
    std::fflush(stderr);
  }
  {
    const Guard guard(kFinalStatusTimeout, {.late = [&] { environment.abort(failure.code); }});
    status.end(failure.code, failure.message);
  }
  // After training began, a thread may hang in a save, for which the normal end of a process would wait.
  if (many || status.begun()) environment.abort(failure.code);
  return failure.code;
}

// The command's name for messages; "" if there is none of that name.
std::string known_command(const std::vector<std::string>& words) {
  if (words.empty()) return "";
  for (const Command& command : all_commands()) {
    if (command.name == words.front()) return command.name;
  }
  return "";
}

// If a standard stream is closed at the start, the next opened file would get its number, and messages would
// be written to that file. Input and output are opened in the wrong direction, so they fail as closed ones
// do; messages are discarded.
void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // This is the lowest free number, since those below are open.
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

// The limit of train on the command line, as options are parsed only when MPI runs. An invalid one is refused
// then.
double wait_limit_of(const std::vector<std::string>& words) {
  const std::string option = "--comm-timeout";
  double seconds = MpiLimits().seconds;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool apart = words[i] == option && i + 1 < words.size();
    if (!apart && !words[i].starts_with(option + "=")) continue;
    const std::string text = apart ? words[i + 1] : words[i].substr(option.size() + 1);
    const double given = std::strtod(text.c_str(), nullptr);
    if (given > 0.0 || text == "0") seconds = given;
  }
  return seconds;
}

std::string join_command_line(int argc, char** argv) {
  std::string line = "ventris";
  for (int i = 1; i < argc; ++i) line += " " + shell_word(argv[i]);
  return line;
}

}  // namespace

}  // namespace ventris

int main(int argc, char** argv) {
  using namespace ventris;
  data::list_hdf5_if_asked(argc, argv);
  hold_standard_streams();
  const std::string command_line = join_command_line(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  install_out_of_memory_handler();
  set_nccl_variables();
  // A write to a closed pipe, or beyond a limit on file size, fails with its reason instead of killing the
  // process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  MpiLimits limits = {.seconds = wait_limit_of(words)};
  try {
    if (!words.empty() && words.front() == "train") {
      watch_stop_signals();
      limits.stop_signal = stop_signal;
    }
    const MpiEnvironment environment(&argc, &argv, limits);
    RunStatus status;
    try {
      return dispatch(words, environment, command_line, status);
    } catch (...) {
      return report(describe_current_exception(), known_command(words), environment, status);
    }
  } catch (...) {
    const Failure failure = describe_current_exception();
    tell_error("ventris", failure.message);
    return failure.code;
  }
}
