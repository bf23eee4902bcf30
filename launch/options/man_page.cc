// SPDX-License-Identifier: Apache-2.0
#include "launch/options/man_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "launch/options/help_parts.h"
#include "launch/options/help_topics.h"
#include "trainer/program_version.h"

namespace ventris {
namespace {

/// Text as it is: groff would take a dash for a hyphen, and a line that begins with a point for a macro.
std::string escaped(const std::string& text) {
  static const std::map<char, std::string> kEscapes = {{'\\', "\\e"},  {'-', "\\-"},    {'~', "\\(ti"},
                                                       {'^', "\\(ha"}, {'\'', "\\(aq"}, {'`', "\\(ga"}};
  std::string result = text.starts_with('.') ? "\\&" : "";
  for (const char c : text) {
    const auto found = kEscapes.find(c);
    result += found == kEscapes.end() ? std::string(1, c) : found->second;
  }
  return result;
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string begin_of_page(const std::string& name, const std::string& summary, const std::string& synopsis) {
  return fmt::format(
      ".TH {} 1 \"\" \"{}\" \"Ventris\"\n.\\\" Written by 'ventris help --man'.\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n"
      ".nh\n.ad l\n{}\n.br\n.ad b\n.hy\n.SH DESCRIPTION\n",
      escaped(capitals(name)), escaped(program_name_and_version()), escaped(name), escaped(summary),
      synopsis);
}

std::string bold(const std::string& text) {
  return "\\fB" + text + "\\fR";
}

std::string item(const std::string& title, const std::string& text) {
  return ".TP\n" + bold(escaped(title)) + "\n" + escaped(text) + "\n";
}

}  // namespace

std::string command_man_page(const Command& command) {
  std::string text =
      begin_of_page("ventris-" + command.name, command.summary,
                    bold(escaped("ventris " + command.name)) + " " + escaped(command.synopsis));
  for (size_t i = 0; i < command.description.size(); ++i)
    text += (i > 0 ? ".PP\n" : "") + escaped(command.description[i]) + "\n";
  text += ".SH OPTIONS\n";
  for (const std::string& group : groups_of(command)) {
    text += fmt::format(".SS \"{}\"\n", escaped(group));
    for (const Option& option : command.options.options()) {
      if (option.group != group) continue;
      const std::string notes = notes_of(option);
      text += item(title_of(option), option.help + (notes.empty() ? "" : " [" + notes + "]"));
    }
  }
  text += ".SS \"General\"\n" + item("--config FILE", config_help()) +
          item("--help [all]", "Prints the common options; with 'all' all of them.");
  text += ".SH EXAMPLES\n";
  for (const Example& example : command.examples)
    text += ".PP\n" + escaped(example.meaning) + "\n.PP\n.nf\n.RS 4\n" + escaped(example_line(example)) +
            "\n.RE\n.fi\n";
  text += ".SH \"EXIT STATUS\"\n";
  for (const auto& [code, meaning] : exit_codes_of(command)) text += item(std::to_string(code), meaning);
  return text + ".SH \"SEE ALSO\"\n" + bold("ventris") + "(1)\n";
}

std::string program_man_page(const std::vector<Command>& commands) {
  std::string text =
      begin_of_page("ventris", "trains the Transformer of \"Attention Is All You Need\" on parallel text",
                    bold("ventris") + " COMMAND [options]\n.br\n" + bold("mpirun") + " " +
                        escaped("-np RANKS ventris train|translate|evaluate [options]"));
  text +=
      escaped(
          "Each command has a page of its own, such as ventris-train(1), and --help. Results go to the standard "
          "output, messages to the standard error.") +
      "\n.SH COMMANDS\n";
  for (const Command& command : commands) text += item(command.name, command.summary);
  text += ".SH TOPICS\n" + escaped("'ventris help TOPIC' shows a part of the guide:") + "\n";
  for (const HelpTopic& topic : help_topics())
    text += item(std::string(topic.name), std::string(topic.title));
  text += ".SH \"SEE ALSO\"\n";
  for (size_t i = 0; i < commands.size(); ++i)
    text += bold(escaped("ventris-" + commands[i].name)) + "(1)" + (i + 1 < commands.size() ? ",\n" : "\n");
  return text;
}

}  // namespace ventris
