// SPDX-License-Identifier: Apache-2.0
#include "trainer/schedule_options.h"

#include <fmt/core.h>

#include <utility>

#include "backend/device/error.h"
#include "trainer/text.h"

namespace ventris {
namespace {

bool ends(const ScheduleOptions& options) {
  return options.kind == ScheduleKind::kLinear || options.kind == ScheduleKind::kCosine;
}

template <typename... Args>
[[noreturn]] void refuse_schedule(fmt::format_string<Args...> text, Args&&... args) {
  fail(ExitCode::kBadConfiguration, "{}", fmt::format(text, std::forward<Args>(args)...));
}

/// An option of other schedules is not passed over in silence.
void refuse_options_of_others(const ScheduleOptions& given) {
  const ScheduleKind kind = given.kind;
  const ScheduleOptions defaults;
  const bool is_plateau = kind == ScheduleKind::kPlateau;
  const bool decays = ends(given) || kind == ScheduleKind::kInverseSqrt;
  struct Rule {
    const char* option;
    bool is_given;
    bool has_use;
    const char* of;
  };
  const char* const of_plateau = "--schedule plateau";
  const Rule rules[] = {
      {"--peak-learning-rate", given.peak > 0.0, kind != ScheduleKind::kNoam, "all schedules but noam"},
      {"--decay-steps", given.decay_steps > 0, decays, "--schedule inverse-sqrt, linear and cosine"},
      {"--plateau-patience", given.plateau_patience != defaults.plateau_patience, is_plateau, of_plateau},
      {"--plateau-factor", given.plateau_factor != defaults.plateau_factor, is_plateau, of_plateau},
  };
  for (const Rule& rule : rules) {
    if (rule.is_given && !rule.has_use)
      refuse_schedule("{} is an option of {}, but --schedule is {}: leave it out, or give another --schedule",
                      rule.option, rule.of, name_of(kind));
  }
}

}  // namespace

void check_schedule(const TrainOptions& options) {
  const ScheduleOptions& given = options.schedule;
  refuse_options_of_others(given);
  if (given.kind == ScheduleKind::kNoam) return;
  const char* const name = name_of(given.kind);
  const double scale = preset_options(options.preset).learning_rate_scale;
  if (options.learning_rate_scale != scale)
    refuse_schedule(
        "--learning-rate-scale is {:g}, but --schedule {} takes its rates from --peak-learning-rate: "
        "leave out --learning-rate-scale, or give --schedule noam",
        options.learning_rate_scale, name);
  if (given.peak <= 0.0)
    refuse_schedule(
        "--schedule {} has no --peak-learning-rate: give the rate after the warm-up, such as 0.0005", name);
  if (ends(given) && schedule_of(options).options.decay_steps <= 0)
    refuse_schedule(
        "--schedule {} ends at step {} (--max-steps), but its decay begins at {}, after the warm-up: "
        "give fewer --warmup-steps, more --max-steps, or --decay-steps",
        name, options.max_steps, options.warmup_steps);
}

void check_schedule_is_validated(const TrainOptions& options, bool has_pairs) {
  if (options.schedule.kind != ScheduleKind::kPlateau) return;
  if (options.valid_every == 0)
    refuse_schedule(
        "--schedule plateau follows the validations, but --valid-every is 0: give the steps between them");
  if (!has_pairs)
    refuse_schedule(
        "--schedule plateau follows the validations, but {} has no validation pairs; "
        "'ventris prepare --valid-sets' adds them",
        options.corpus);
}

Schedule schedule_of(const TrainOptions& options) {
  Schedule schedule{.scale = options.learning_rate_scale,
                    .d_model = options.model.d_model,
                    .warmup = options.warmup_steps,
                    .options = options.schedule};
  ScheduleOptions& own = schedule.options;
  if (own.decay_steps == 0 && own.kind == ScheduleKind::kInverseSqrt) own.decay_steps = options.warmup_steps;
  if (own.decay_steps == 0 && ends(own)) own.decay_steps = options.max_steps - options.warmup_steps;
  return schedule;
}

std::string describe_schedule(const TrainOptions& options) {
  const Schedule schedule = schedule_of(options);
  const ScheduleOptions& own = schedule.options;
  if (own.kind == ScheduleKind::kNoam)
    return fmt::format("noam: from 0 to {:.3g} in {} steps, then down by the inverse square root of the step",
                       schedule.learning_rate(schedule.warmup), thousands(schedule.warmup));
  std::string text =
      fmt::format("{}: from 0 to {:g} in {} steps", name_of(own.kind), own.peak, thousands(schedule.warmup));
  if (own.kind == ScheduleKind::kInverseSqrt)
    text += fmt::format(", from step {} down by the inverse square root", thousands(own.decay_steps));
  if (own.kind == ScheduleKind::kPlateau)
    text += fmt::format(", times {:g} after {} without a better one", own.plateau_factor,
                        counted(own.plateau_patience, "validation"));
  if (ends(own))
    text += fmt::format(", from step {} to 0 at step {}", thousands(schedule.warmup),
                        thousands(schedule.warmup + own.decay_steps));
  return text;
}

}  // namespace ventris
