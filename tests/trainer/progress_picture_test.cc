// SPDX-License-Identifier: Apache-2.0
#include "trainer/progress_picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace ventris {
namespace {

using Rows = std::vector<std::string>;

constexpr PictureStyle kAscii{.charset = Charset::kAscii, .colours = false};
constexpr PictureStyle kUtf8{.charset = Charset::kUtf8, .colours = false};

/// A run of 2,000 of 8,000 steps with four validations.
PicturedRun some_run() {
  PicturedRun run{.name = "model",
                  .stage = "warm",
                  .step = 2000,
                  .max_steps = 8000,
                  .fraction = 0.25,
                  .epoch = 3.125,
                  .smooths = true,
                  .loss = 4.4682,
                  .perplexity = 51.36,
                  .learning_rate = 2.762e-3,
                  .gradient_norm = 0.8125,
                  .target_tokens_per_second = 31983.4,
                  .validates = true,
                  .metric = "bleu",
                  .validations = {{.step = 2000, .loss = 1.1871, .perplexity = 1.06, .score = 98.5},
                                  {.step = 1750, .loss = 1.2023, .perplexity = 1.07, .score = 99.52},
                                  {.step = 1500, .loss = 1.2788, .perplexity = 1.11, .score = 95.44}},
                  .best_step = 1750,
                  .best = 99.52,
                  .elapsed_seconds = 55.0,
                  .seconds_left = 517.0,
                  .saved_step = 1750,
                  .saved_seconds = 12.0,
                  .saved_by_this_start = true,
                  .ranks = 2,
                  .memory = {.resident = 240 << 20, .used = int64_t{5} << 30, .total = int64_t{16} << 30}};
  for (int64_t step = 50; step <= 2000; step += 50)
    run.curve.add({.step = step, .value = 4.0 + 5.0 * std::exp(-static_cast<double>(step) / 400.0)});
  return run;
}

/// Each row after a line end, so that the first begins a line of a raw string.
std::string joined(const Rows& rows) {
  std::string text = "\n";
  for (const std::string& row : rows) text += row + "\n";
  return text;
}

TEST(ProgressPicture, ShowsARunAtEightyColumns) {
  EXPECT_EQ(joined(progress_picture(some_run(), {80, 24}, kAscii)), R"(
step 2000/8000  epoch 3.12  stage warm  [#######......................]  25.0 %
smoothed loss 4.4682  perplexity 51.36     8.412 '
lr 2.762e-03  gradient norm 0.8125                '
31983 target tokens/s  2 ranks                     '_
validation      loss  perplexity    BLEU             -
      2000    1.1871        1.06   98.50              '-_
      1750    1.2023        1.07   99.52                 '--__
      1500    1.2788        1.11   95.44   4.034              '''-----_________
best BLEU 99.52 at step 1750                loss 50                        2000
8 min 37 s left  55 s elapsed  checkpoint of step 1750 12 s ago
memory 240.0 MiB of rank 0, host 5.0 GiB of 16.0 GiB  model
)");
}

TEST(ProgressPicture, HasDotsWhereTheTerminalHas) {
  EXPECT_EQ(joined(progress_picture(some_run(), {80, 24}, kUtf8)), R"(
step 2000/8000  epoch 3.12  stage warm  ⣿⣿⣿⣿⣿⣿⣿⣇⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀  25.0 %
smoothed loss 4.4682  perplexity 51.36     8.412 ⠱⡀
lr 2.762e-03  gradient norm 0.8125                ⠸⡀
31983 target tokens/s  2 ranks                     ⠘⡄
validation      loss  perplexity    BLEU            ⠈⠢⡀
      2000    1.1871        1.06   98.50              ⠈⠢⢄
      1750    1.2023        1.07   99.52                 ⠉⠒⠤⣀
      1500    1.2788        1.11   95.44   4.034             ⠉⠉⠒⠒⠒⠤⠤⠤⠤⠤⢄⣀⣀⣀⣀⣀⣀⣀
best BLEU 99.52 at step 1750                loss 50                        2000
8 min 37 s left  55 s elapsed  checkpoint of step 1750 12 s ago
memory 240.0 MiB of rank 0, host 5.0 GiB of 16.0 GiB  model
)");
}

TEST(ProgressPicture, KeepsWhatMattersOnASmallTerminal) {
  EXPECT_EQ(joined(progress_picture(some_run(), {60, 15}, kAscii)), R"(
step 2000/8000  epoch 3.12  stage warm  [##.......]  25.0 %
smoothed loss 4.4682  perplexity 51.36     7.914 '
31983 target tokens/s  2 ranks                    '_
validated at 2000: loss 1.1871 BLEU 98.50  4.038    '--____
best BLEU 99.52 at step 1750                loss 50    2000
8 min 37 s left  55 s elapsed  checkpoint of step 1750
)");
  EXPECT_EQ(joined(progress_picture(some_run(), {40, 24}, kAscii)), R"(
step 2000/8000  epoch 3.12  stage warm
smoothed loss 4.4682  perplexity 51.36
lr 2.762e-03  gradient norm 0.8125
31983 target tokens/s  2 ranks
2000: loss 1.1871 BLEU 98.50
best BLEU 99.52 at step 1750
 8.412 '--__
 4.034      '''-------_________________
  loss 50                          2000
8 min 37 s left  55 s elapsed
memory 240.0 MiB of rank 0
)");
  EXPECT_EQ(joined(progress_picture(some_run(), {20, 24}, kAscii)), R"(
step 2000/8000
loss 4.4682
lr 2.762e-03
31983 tokens/s
2000: BLEU 98.50
best 99.52 at 1750
 8.153 '_
 4.036   '---______
  loss 50      2000
8 min 37 s left
memory 240.0 MiB
)");
  EXPECT_EQ(joined(progress_picture(some_run(), {80, 8}, kAscii)), R"(
step 2000/8000  epoch 3.12  stage warm  [#######......................]  25.0 %
smoothed loss 4.4682  perplexity 51.36     8.412 ''------______________________
8 min 37 s left  55 s elapsed  checkpoint of step 1750 12 s ago
)");
  EXPECT_EQ(joined(progress_picture(some_run(), {80, 7}, kAscii)), R"(
step 2000/8000  loss 4.4682  8 min 37 s left
)");
  EXPECT_EQ(joined(progress_picture(some_run(), {40, 7}, kAscii)), R"(
2000/8000  loss 4.4682  8 min 37 s left
)");
}

TEST(ProgressPicture, FitsEveryTerminal) {
  PicturedRun run = some_run();
  run.stage = "日本語のステージの名前";
  run.name = "モデル\033[2J";
  run.activity = "waiting for a checkpoint to be on the disk";
  run.skipped_steps = 12345;
  run.perplexity = 1e300;
  run.step = run.max_steps = 123456789;
  run.device_total = int64_t{80} << 30;
  for (size_t columns = 1; columns <= 210; ++columns) {
    for (const size_t rows : {1U, 2U, 3U, 7U, 8U, 9U, 12U, 15U, 24U, 25U, 100U}) {
      for (const bool colours : {false, true}) {
        const PictureStyle style{.charset = rows % 2 == 0 ? Charset::kUtf8 : Charset::kAscii,
                                 .colours = colours};
        const Rows picture = progress_picture(run, {columns, rows}, style);
        ASSERT_GE(picture.size(), 1U);
        // Together with a blank row at either end.
        if (picture.size() > 1) {
          ASSERT_LE(2 * picture.size() + 2, rows) << columns;
        }
        for (const std::string& row : picture) {
          ASSERT_LE(cells_of(row), std::max<size_t>(1, std::min<size_t>(columns - 1, kWidestPicture)))
              << columns << "x" << rows << ": " << row;
          ASSERT_TRUE(row.empty() || row.back() != ' ') << row;
          ASSERT_EQ(row.find("\033[2J"), std::string::npos);
          ASSERT_EQ(row.find('\n'), std::string::npos);
        }
      }
    }
  }
}

TEST(ProgressPicture, KeepsItsHeightFromTheBeginning) {
  PicturedRun run{.name = "model", .max_steps = 8000, .validates = true, .metric = "loss"};
  const Rows before = progress_picture(run, {80, 24}, kAscii);
  EXPECT_EQ(before.size(), progress_picture(some_run(), {80, 24}, kAscii).size());
  EXPECT_NE(joined(before).find("no loss yet"), std::string::npos);
  EXPECT_NE(joined(before).find("no best yet"), std::string::npos);
  EXPECT_NE(joined(before).find("no checkpoint yet"), std::string::npos);
  EXPECT_EQ(joined(before).find(" left"), std::string::npos);
}

TEST(ProgressPicture, TellsWhatDecides) {
  PicturedRun run = some_run();
  run.metric = "perplexity";
  run.best = 1.06;
  run.best_step = 2000;
  for (PicturedValidation& validation : run.validations) validation.score.reset();
  const std::string text = joined(progress_picture(run, {80, 24}, kAscii));
  EXPECT_NE(text.find("best perplexity 1.0600 at step 2000"), std::string::npos) << text;
  EXPECT_EQ(text.find("BLEU"), std::string::npos) << text;
  run.validates = false;
  const std::string without = joined(progress_picture(run, {80, 24}, kAscii));
  EXPECT_EQ(without.find("best"), std::string::npos) << without;
}

TEST(ProgressPicture, TellsWhatHappensBesideSteps) {
  PicturedRun run = some_run();
  run.activity = "validating";
  run.skipped_steps = 3;
  run.saved_by_this_start = false;
  run.device_used = int64_t{20} << 30;
  run.device_total = int64_t{80} << 30;
  run.memory.total = 0;
  const std::string text = joined(progress_picture(run, {101, 24}, kAscii));
  for (const char* part : {"step 2000/8000, validating", "3 skipped", "checkpoint of step 1750\n",
                           "device 20.0 GiB of 80.0 GiB"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
}

TEST(ProgressPicture, ColoursTheCurveAndTheBarAlone) {
  const Rows plain = progress_picture(some_run(), {80, 24}, kUtf8);
  const Rows coloured = progress_picture(some_run(), {80, 24}, {.charset = Charset::kUtf8, .colours = true});
  ASSERT_EQ(plain.size(), coloured.size());
  EXPECT_NE(coloured.front().find("\033[36m⣿"), std::string::npos);
  for (size_t i = 0; i < plain.size(); ++i) {
    std::string text = coloured[i];
    for (const std::string code : {"\033[36m", "\033[0m"})
      if (const size_t at = text.find(code); at != std::string::npos) text.erase(at, code.size());
    EXPECT_EQ(text, plain[i]);
  }
}

}  // namespace
}  // namespace ventris
