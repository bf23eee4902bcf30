// SPDX-License-Identifier: Apache-2.0
#include "launch/help.h"

#include <fmt/core.h>

#include <algorithm>

#include "backend/error.h"
#include "launch/help_parts.h"
#include "launch/help_topics.h"

namespace ventris {

namespace {

// The words of a choice are shown there if they are short.
std::string short_title_of(const Option& option) {
  constexpr size_t kWidest = 30;
  const std::string title = title_of(option);
  return title.size() <= kWidest ? title : "--" + option.name + " NAME";
}

// In the column of the short help.
std::string value_of(const Option& option) {
  return option.required ? "required" : option.show();
}

// One line each: the option, its value unless another is given, and what it is.
std::string common_options(const Command& command) {
  size_t widest_title = 0;
  size_t widest_value = 0;
  std::vector<const Option*> options;
  for (const CommonOption& common : command.common) {
    options.push_back(command.options.find(common.name));
    VENTRIS_CHECK(options.back() != nullptr, "{} has no option {}", command.name, common.name);
    widest_title = std::max(widest_title, short_title_of(*options.back()).size());
    widest_value = std::max(widest_value, value_of(*options.back()).size());
  }
  std::string text;
  for (size_t i = 0; i < options.size(); ++i) {
    text += fmt::format("  {:<{}}  {:>{}}  {}\n", short_title_of(*options[i]), widest_title,
                        value_of(*options[i]), widest_value, command.common[i].meaning);
  }
  return text;
}

}  // namespace

std::string program_help(const std::vector<Command>& commands) {
  std::string text =
      "ventris - trains the Transformer of \"Attention Is All You Need\" on parallel text\n\n"
      "Usage:\n"
      "  ventris COMMAND [options]\n"
      "  mpirun -np RANKS ventris train|translate|evaluate [options]\n\n"
      "Commands, in the order of a first run:\n";
  for (const Command& command : commands) text += fmt::format("  {:<15} {}\n", command.name, command.summary);
  text += "\nTopics of 'ventris help':\n";
  for (const HelpTopic& topic : help_topics()) text += fmt::format("  {:<15} {}\n", topic.name, topic.title);
  text +=
      "\n"
      "  help TOPIC    shows a part of the guide\n"
      "  help COMMAND  shows the common options of a command, like COMMAND --help;\n"
      "                help COMMAND all, or COMMAND --help all, shows all of them\n"
      "  --version     prints the version, the commit and the libraries\n\n"
      "Results go to the standard output, messages to the standard error.\n";
  return text;
}

std::string command_help(const Command& command) {
  if (command.common.empty()) return command_help_in_full(command);
  std::string text = wrapped(fmt::format("ventris {} - {}", command.name, command.summary), 0, 4);
  text += "\n" + wrapped(fmt::format("Usage: ventris {} {}", command.name, command.synopsis), 0, 11);
  const Option* preset = command.options.find("preset");
  text += fmt::format("\nCommon options, {}:\n", preset == nullptr
                                                     ? "with their defaults"
                                                     : "with their values in the preset " + preset->show());
  text += common_options(command);
  text += "\nExamples:\n";
  constexpr size_t kMaxExamples = 2;
  for (size_t i = 0; i < std::min(kMaxExamples, command.examples.size()); ++i)
    text += wrapped(example_line(command.examples[i]), 2, 4, " \\");
  return text + fmt::format("\nAll {} options, with full descriptions: {}\n",
                            command.options.options().size(), help_in_full_line(command));
}

std::string help_in_full_line(const Command& command) {
  return fmt::format("ventris {} --help{}", command.name, command.common.empty() ? "" : " all");
}

std::string command_help_in_full(const Command& command) {
  std::string text = "NAME\n" + wrapped(fmt::format("ventris {} - {}", command.name, command.summary), 4, 4);
  text += "\nSYNOPSIS\n";
  text += wrapped(fmt::format("ventris {} {}", command.name, command.synopsis), 4, 4);
  text += "\nDESCRIPTION\n";
  for (size_t i = 0; i < command.description.size(); ++i) {
    text += (i > 0 ? "\n" : "") + wrapped(command.description[i], 4);
  }
  for (const std::string& group : groups_of(command)) {
    text += "\n";
    for (const char c : group) text += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    text += "\n";
    for (const Option& option : command.options.options()) {
      if (option.group != group) continue;
      text += "    " + title_of(option) + "\n" + wrapped(option.help, 8);
      const std::string notes = notes_of(option);
      if (!notes.empty()) text += wrapped("[" + notes + "]", 8);
    }
  }
  text += "\nGENERAL\n    --config FILE\n" + wrapped(config_help(), 8) + "    --help [all]\n" +
          wrapped(command.common.empty() ? "Prints this text."
                                         : "Prints the common options; with 'all' this text.",
                  8);
  text += "\nEXAMPLES\n";
  for (const Example& example : command.examples) {
    text += wrapped(example.meaning, 4) + wrapped(example_line(example), 8, 4, " \\");
  }
  text += "\nEXIT CODES\n";
  for (const auto& [code, meaning] : exit_codes_of(command))
    text += fmt::format("    {:>2}  {}\n", code, meaning);
  return text;
}

std::string markdown_reference(const std::vector<Command>& commands) {
  const auto escaped = [](const std::string& text) {
    std::string result;
    for (const char c : text) result += (c == '|' ? std::string("\\|") : std::string(1, c));
    return result;
  };
  std::string text =
      "# Commands\n\n"
      "This page is generated from the program's option tables: "
      "`ventris help --markdown > docs/commands.md`.\n\n"
      "| command | what it does |\n"
      "|---|---|\n";
  for (const Command& command : commands) {
    text += fmt::format("| [`{0}`](#ventris-{0}) | {1} |\n", command.name, escaped(command.summary));
  }
  text +=
      "\nEvery command also has `--help`, which shows the common options, "
      "`--help all`, and `--config FILE`: " +
      config_help() +
      " Results go to the standard output, messages to the standard error. Options cannot be abbreviated "
      "or repeated. [Exit codes](exit-codes.md) are the same for all commands.\n";
  for (const Command& command : commands) {
    text += fmt::format("\n## ventris {}\n\n```\nventris {} {}\n```\n\n", command.name, command.name,
                        command.synopsis);
    for (const std::string& paragraph : command.description) text += paragraph + "\n\n";
    for (const std::string& group : groups_of(command)) {
      text += fmt::format("### {}: {}\n\n| option | meaning |\n|---|---|\n", command.name, group);
      for (const Option& option : command.options.options()) {
        if (option.group != group) continue;
        const std::string notes = notes_of(option);
        text += fmt::format("| `{}` | {}{} |\n", escaped(title_of(option)), escaped(option.help),
                            notes.empty() ? "" : " *" + escaped(notes) + "*");
      }
      text += "\n";
    }
    text += fmt::format("### {}: Examples\n\n", command.name);
    for (const Example& example : command.examples) {
      text += example.meaning + "\n\n```\n" + example_line(example) + "\n```\n\n";
    }
    text += fmt::format("### {}: Exit codes\n\n| code | meaning |\n|---|---|\n", command.name);
    for (const auto& [code, meaning] : exit_codes_of(command))
      text += fmt::format("| {} | {} |\n", code, meaning);
  }
  return text;
}

}  // namespace ventris
