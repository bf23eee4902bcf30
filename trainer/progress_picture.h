// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/host_memory.h"
#include "trainer/loss_curve.h"
#include "trainer/terminal_text.h"

namespace ventris {

/// A validation in the picture; a value that was not measured is empty.
struct PicturedValidation {
  int64_t step;
  std::optional<double> loss, perplexity;
  std::optional<double> score;  // BLEU or chrF, if --valid-metric is one of them
};

/// What train --progress full shows.
struct PicturedRun {
  std::string name = {};      // of the run folder
  std::string activity = {};  // "validating"; "" during steps
  std::string stage = {};     // of a plan; "" without
  int64_t step = 0;
  int64_t max_steps = 0;
  double fraction = 0.0;  // of the run that is done, from 0 to 1
  double epoch = 0.0;
  bool smooths = false;                   // whether the loss has smoothed labels
  std::optional<double> loss = {};        // of the interval; empty before the first step
  std::optional<double> perplexity = {};  // likewise
  double learning_rate = 0.0;             // 0 before the first step
  double gradient_norm = 0.0;             // likewise
  double target_tokens_per_second = 0.0;  // likewise, of all ranks
  int64_t skipped_steps = 0;
  LossCurve curve = {};                              // a point for each interval
  bool validates = false;                            // whether there are to be validations
  std::string metric = {};                           // --valid-metric
  std::vector<PicturedValidation> validations = {};  // at most kPicturedValidations, the last first
  int64_t best_step = 0;                             // 0: none
  double best = 0.0;                                 // its metric
  double elapsed_seconds = 0.0;                      // of training, with earlier starts
  std::optional<double> seconds_left = {};           // empty before the first step
  std::optional<int64_t> saved_step = {};            // of the last checkpoint on the disk
  double saved_seconds = 0.0;                        // since then
  bool saved_by_this_start = false;                  // otherwise that time is not known
  int ranks = 1;
  HostMemory memory = {};    // of rank 0 and its host
  int64_t device_used = 0;   // bytes of the device of rank 0
  int64_t device_total = 0;  // 0: no CUDA
};
inline constexpr size_t kPicturedValidations = 3;

/// How the picture is drawn.
struct PictureStyle {
  Charset charset = Charset::kAscii;
  bool colours = false;  // trainer/message_colour.h
};

/// The rows of the picture on a terminal of that size (80 x 24 if it is not known), each narrower than it,
/// without blanks at their end. At most kWidestPicture cells and half of the rows less one are used, so that
/// the log above stays readable, and a terminal that narrows to the half, which makes two rows of each, still
/// has all of them and a blank row at either end. In a terminal of fewer than kLowestPicture rows it is one
/// row.
std::vector<std::string> progress_picture(const PicturedRun& run, const TerminalSize& size,
                                          const PictureStyle& style);
inline constexpr size_t kWidestPicture = 100;
inline constexpr size_t kLowestPicture = 8;

}  // namespace ventris
