// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/options/option_table.h"
#include "trainer/train_options.h"

namespace ventris {

/// The options of `ventris train` in the order of its help, bound to `train`, with those of its model.
void add_train_rows(TrainOptions& train, OptionTable& table);

/// A copy of options, with rows that are bound to it.
struct TrainRows {
  explicit TrainRows(const TrainOptions& given = {}) : options(given) { add_train_rows(options, table); }
  TrainRows(const TrainRows&) = delete;
  TrainRows& operator=(const TrainRows&) = delete;

  TrainOptions options;
  OptionTable table;
};

}  // namespace ventris
