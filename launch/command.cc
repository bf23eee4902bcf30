// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "launch/command.h"

namespace ventris {

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  commands.push_back(demo_corpus_command());
  commands.push_back(prepare_command());
  commands.push_back(doctor_command());
  commands.push_back(plan_command());
  commands.push_back(train_command());
  commands.push_back(report_command());
  commands.push_back(translate_command());
  commands.push_back(evaluate_command());
  commands.push_back(score_command());
  commands.push_back(bleu_command());
  commands.push_back(attention_command());
  commands.push_back(average_command());
  commands.push_back(export_command());
  commands.push_back(import_command());
  commands.push_back(inspect_command());
  return commands;
}

}  // namespace ventris
