// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "data/prepare.h"

namespace ventris {

/// Shows on the standard error what `prepare` is doing: on a terminal in one live line
/// (trainer/live_line.h), elsewhere in a line at each --log-seconds.
class PrepareProgressLine {
 public:
  /// Nothing is shown unless it `speaks`.
  PrepareProgressLine(bool speaks, double log_seconds);
  ~PrepareProgressLine();
  PrepareProgressLine(const PrepareProgressLine&) = delete;
  PrepareProgressLine& operator=(const PrepareProgressLine&) = delete;

  void show(const data::PrepareProgress& progress);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "tokenizing  1,200,000 pairs  48,000 pairs/s  3 min 20 s left": after `seconds` in this phase.
std::string prepare_progress_text(const data::PrepareProgress& progress, double seconds);

}  // namespace ventris
