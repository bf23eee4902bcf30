#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/error.h"
#include "comm/communicator.h"
#include "comm/guard.h"
#include "comm/mpi_environment.h"
#include "data/error.h"
#include "launch/command.h"
#include "launch/help.h"
#include "launch/job.h"
#include "launch/output.h"
#include "launch/parse.h"
#include "launch/version.h"
#include "trainer/run_status.h"
#include "trainer/trainer.h"

namespace ventris {
namespace {

// A failure that several ranks share is told by rank 0, which then ends the job; the others wait this long
// for it, so that there is one message, and speak only if rank 0 had no reason to.
constexpr std::chrono::seconds kPatienceForRankZero{3};

// For the last word in status.json, on a disk that may hang.
constexpr double kLongestLastWord = 5.0;  // seconds

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

// "did you mean 'train'?" or where the commands are listed.
std::string command_suggestion(const std::vector<Command>& commands, const std::string& word) {
  std::vector<std::string> names = {"help", "version", "--help", "--version"};
  for (const Command& command : commands) names.push_back(command.name);
  const std::string near = nearest(word, names);
  return near.empty() ? "'ventris help' lists the commands" : fmt::format("did you mean '{}'?", near);
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
  for (const Command& command : commands) {
    if (command.name != words.front()) continue;
    write_output(command_help(command));
    return 0;
  }
  fail(ExitCode::kUsage, "there is no command '{}'; {}", words.front(),
       command_suggestion(commands, words.front()));
}

int run_command(const Command& command, const std::vector<std::string>& words,
                const MpiEnvironment& environment, const std::string& command_line, RunStatus& status) {
  // After "--" stand words of another command.
  if (std::any_of(words.begin(), std::find(words.begin(), words.end(), "--"), is_help)) {
    if (environment.rank() == 0) write_output(command_help(command));
    return 0;
  }
  parse_options(command, words);
  if (environment.size() > 1 && !command.many_ranks) {
    fail(ExitCode::kUsage, "this command is one process, but the job has {} ranks; start it without mpirun",
         environment.size());
  }
  const std::unique_ptr<Communicator> communicator = make_communicator(environment);
  Job job{environment, *communicator, command_line, status};
  return command.run(job);
}

int dispatch(const std::vector<std::string>& words, const MpiEnvironment& environment,
             const std::string& command_line, RunStatus& status) {
  const std::vector<Command> commands = all_commands();
  if (words.empty()) {
    fail(ExitCode::kUsage, "no command is given; 'ventris help' lists the commands");
  }
  const std::string& name = words.front();
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  const bool speaks = environment.rank() == 0;
  if (name == "--version" || name == "version") {
    if (speaks) write_output(version_text());
    return 0;
  }
  if (is_help(name) || name == "help") return speaks ? help_command(commands, rest) : 0;
  for (const Command& command : commands) {
    if (command.name == name) return run_command(command, rest, environment, command_line, status);
  }
  fail(ExitCode::kUsage, "unknown command '{}'; {}", name, command_suggestion(commands, name));
}

// What is told of a failure, and the exit code.
struct Failure {
  int code;
  std::string message;  // empty: nothing is to be said
  std::optional<std::chrono::milliseconds> patience =
      {};  // of this rank with others; else kPatienceForRankZero
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
    return {
        static_cast<int>(ExitCode::kInternal),
        "out of memory; use a smaller model, smaller batches (--batch-source-tokens, --batch-target-tokens, "
        "--batch-rows) or fewer ranks on a host"};
  } catch (const std::exception& error) {
    return {static_cast<int>(ExitCode::kInternal), fmt::format("internal error: {}", error.what())};
  }
}

// Tells the failure once a job and ends it on all ranks.
int report(const Failure& failure, const std::string& command, const MpiEnvironment& environment,
           RunStatus& status) {
  const bool many = environment.size() > 1;
  if (many && (failure.patience || environment.rank() != 0)) {
    std::signal(SIGTERM, SIG_DFL);  // the launcher's order to end, once another rank has ended the job
    std::this_thread::sleep_for(failure.patience.value_or(kPatienceForRankZero));
  }
  if (!failure.message.empty()) {
    const std::string place =
        many ? fmt::format("[rank {} on {}] ", environment.rank(), environment.host()) : std::string();
    tell(fmt::format("{}ventris{}: error: {}", place, command.empty() ? "" : " " + command, failure.message));
    std::fflush(stderr);
  }
  {
    const Guard guard(kLongestLastWord, {.late = [&] { environment.abort(failure.code); }});
    status.end(failure.code, failure.message);
  }
  // After training began, a thread may hang in a save, for which the ordinary end of a process would wait.
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

// A standard stream that was closed when the program started would lend its number to the next file that is
// opened, and messages would go into that file. Input and output opened the wrong way round fail as closed
// ones do; messages that nobody wants go nowhere.
void hold_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one, since those below are open.
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

// Of train, as it stands on the command line: options are read when MPI runs. A wrong one is refused then.
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
  for (int i = 1; i < argc; ++i) line += std::string(" ") + argv[i];
  return line;
}

}  // namespace
}  // namespace ventris

int main(int argc, char** argv) {
  using namespace ventris;
  hold_standard_streams();
  // A write to a closed pipe, or past a limit on the size of files, fails with its reason instead of killing
  // the process in the middle of its files.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const std::string command_line = join_command_line(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + std::max(argc, 1));
  MpiLimits limits = {.seconds = wait_limit_of(words)};
  if (!words.empty() && words.front() == "train") {
    install_stop_handlers();
    limits.stop_signal = stop_signal;
  }
  try {
    const MpiEnvironment environment(&argc, &argv, limits);
    RunStatus status;
    try {
      return dispatch(words, environment, command_line, status);
    } catch (...) {
      return report(describe_current_exception(), known_command(words), environment, status);
    }
  } catch (...) {
    const Failure failure = describe_current_exception();
    tell("ventris: error: " + failure.message);
    return failure.code;
  }
}
