// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/options/option_table.h"

namespace ventris {

struct Job;

struct Example {
  std::string line;  // without the leading "ventris"; or a whole shell line if it holds a "|" or "mpirun"
  std::string meaning;
};

/// An option of the short help, with its short description there.
struct CommonOption {
  std::string name;
  std::string meaning;
};

struct ExitStatus {
  int code;
  std::string meaning;
};

/// Converts the text of a file of --config to options as in a file of lines. `path` is for messages.
using ConfigReader = std::function<std::vector<std::pair<std::string, std::string>>(const std::string& text,
                                                                                    const std::string& path)>;

/// A command of the program: its documentation, its options, and its function. Created by the functions
/// below, one file each.
struct Command {
  std::string name;
  std::string summary;                   // one line, for the list of commands
  std::string synopsis;                  // synopsis after the command's name
  std::vector<std::string> description;  // paragraphs
  std::vector<Example> examples;
  std::vector<CommonOption> common;    // the options of --help, on one screen; empty: all options
  std::vector<ExitStatus> exit_codes;  // in addition to 0 and those of every command
  bool many_ranks = false;             // may run under mpirun with several ranks
  bool alike_on_ranks = false;         // the options of all ranks are compared before it runs
  OptionTable options;
  /// Called before options are stored, with the text given for --preset ("" if none): sets defaults that
  /// depend on it.
  std::function<void(const std::string& preset)> before_store;
  /// For a file of --config in JSON. Empty: it is refused.
  ConfigReader options_from_json;
  std::function<int(Job&)> run;  // returns the exit code
};

Command demo_corpus_command();
Command prepare_command();
Command doctor_command();
Command plan_command();
Command train_command();
Command translate_command();
Command evaluate_command();
Command score_command();
Command bleu_command();
Command attention_command();
Command average_command();
Command export_command();
Command import_command();
Command inspect_command();
Command report_command();

/// All commands in the order of the help text.
std::vector<Command> all_commands();

}  // namespace ventris
