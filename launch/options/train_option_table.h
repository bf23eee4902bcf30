// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launch/command.h"
#include "launch/options/option_table.h"
#include "trainer/train_options.h"

namespace ventris {

struct TrainCommandOptions {
  TrainOptions train;
  std::string mix;          // file of --mix (launch/options/mix_option.h)
  std::string show_preset;  // name; empty: train
  bool json = false;
};

const std::vector<std::string>& preset_names();

/// Declares the options of `ventris train`: every field of TrainOptions except the size of the vocabulary,
/// which is in the corpus.
void add_train_options(TrainCommandOptions& options, OptionTable& table);

/// Those of them that select the pairs of the steps.
void add_batch_options(TrainCommandOptions& options, OptionTable& table);

/// The options of the short help.
std::vector<CommonOption> common_train_options();

/// Sets the defaults of a preset, or of the current one if `preset` is "". An unknown name is refused when
/// --preset itself is stored.
void take_preset(TrainCommandOptions& options, const std::string& preset);

}  // namespace ventris
