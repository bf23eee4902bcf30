// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backend/error.h"
#include "launch/command.h"
#include "launch/completion.h"
#include "launch/help_topics.h"
#include "launch/output.h"

namespace ventris {

Command completion_command() {
  const auto shells = std::make_shared<std::vector<std::string>>();
  Command command;
  command.name = "completion";
  command.summary = "prints a script that completes command lines in a shell";
  command.synopsis = "bash|zsh|fish";
  command.description = {
      "Commands, options, the words of choices, files and folders. 'cmake --install' installs the scripts for "
      "all three shells where these look for them; the examples are for one user, without it."};
  command.examples = {
      {"ventris completion bash > ~/.local/share/bash-completion/completions/ventris", "bash:"},
      {"ventris completion zsh > ~/.zfunc/_ventris", "zsh, with ~/.zfunc in fpath before compinit:"},
      {"ventris completion fish > ~/.config/fish/completions/ventris.fish", "fish:"}};
  command.options.group("Shell");
  command.options.operands("bash|zsh|fish", *shells, "The shell.").required = true;
  command.run = [shells](Job&) {
    const std::string& shell = shells->front();
    if (shells->size() > 1) fail(ExitCode::kUsage, "expected is one shell, not {}", shells->size());
    if (shell != "bash" && shell != "zsh" && shell != "fish")
      fail(ExitCode::kUsage, "there is no completion for '{}'; there is one for bash, zsh and fish", shell);
    const std::vector<Command> commands = all_commands();
    const std::vector<std::string> topics = help_topic_names();
    write_output(shell == "bash"  ? bash_completion(commands, topics)
                 : shell == "zsh" ? zsh_completion(commands, topics)
                                  : fish_completion(commands, topics));
    return 0;
  };
  return command;
}

}  // namespace ventris
