// SPDX-License-Identifier: Apache-2.0
#include "launch/teacher_options.h"

#include "backend/soft_targets.h"

namespace ventris {

void add_teacher_options(TrainOptions& train, OptionTable& table) {
  constexpr double kMostTemperature = 1000.0;
  table.group("Teachers");
  table.texts(
      "teacher", "FILE|DIR...", train.teachers,
      "Trained models from which the run learns beside its labels (word-level distillation): for every "
      "target token their distribution over the vocabulary. Weights files, checkpoints or run folders, "
      "of any shape but with the same vocabulary ('ventris prepare --tokenizer-from'). Several teach the "
      "mean of their distributions. Each adds its forward pass to a step. Validation takes the labels "
      "alone.");
  table.number("teacher-weight", train.teacher_weight, {.min = 0, .max = 1},
               "Weight of what the teachers say in the loss; the smoothed label has the rest.");
  table.number(
      "teacher-temperature", train.teacher_temperature,
      {.min = kMinTeacherTemperature, .max = kMostTemperature},
      "By what the logits of the teachers and of the run are divided for it. Above 1 the proportions "
      "among improbable tokens count for more. That part of the loss is multiplied by the square.");
  table.integer(
      "teacher-top-k", train.teacher_top_k, {.min = 0, .max = kMostSoftTargets},
      "The most probable tokens of each distribution, which are learned and share its probability. 0: "
      "all tokens, with memory for a second set of logits, in f32.");
}

}  // namespace ventris
