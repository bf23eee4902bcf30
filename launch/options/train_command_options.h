// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/command.h"
#include "trainer/train_options.h"

namespace ventris {

struct TrainCommandOptions {
  TrainOptions train;       // `mix` is a file until take_mix()
  std::string show_preset;  // name; empty: train
  bool json = false;
};

/// Declares the options that train and plan share (trainer/options/train_rows.h, and --json), and what a
/// command with them does with presets and with a config.json. `options` must outlive the command.
void add_train_options(TrainCommandOptions& options, Command& command);

/// Reads the file of --mix, if one is given: a plan of stages, or a config.json of a run with one. Throws
/// DataError, and Error(kBadConfiguration) for a config.json without a plan.
void take_mix(TrainOptions& options);

}  // namespace ventris
