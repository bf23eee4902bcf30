// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/schedule.h"
#include "trainer/train_options.h"

namespace ventris {

/// Throws Error(kBadConfiguration), which names the options, if those of the schedule contradict each other
/// or one is missing.
void check_schedule(const TrainOptions& options);

/// Throws Error(kBadConfiguration) if the schedule follows validations and there are none: with --valid-every
/// 0, or without pairs to validate on.
void check_schedule_is_validated(const TrainOptions& options, bool has_pairs);

/// The schedule of options that check_schedule() accepts. A decay_steps of 0 becomes the rest up to
/// max_steps, for inverse-sqrt the steps of the warm-up.
Schedule schedule_of(const TrainOptions& options);

/// One line for people, such as "cosine: from 0 to 0.0005 in 4,000 steps, from step 4,000 to 0 at step
/// 100,000".
std::string describe_schedule(const TrainOptions& options);

}  // namespace ventris
