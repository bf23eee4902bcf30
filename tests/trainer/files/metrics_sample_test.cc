// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/metrics_sample.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "backend/error.h"
#include "data/files/file_format.h"
#include "tests/support/tiny_run.h"

namespace ventris {
namespace {

class MetricsSampleTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  const std::string path_ = folder_ / "metrics.jsonl";

  static std::string interval(int64_t step) {
    return fmt::format("{{\"step\":{},\"type\":\"interval\",\"loss\":{},\"pairs\":{{\"news\":1}}}}\n", step,
                       100.0 / static_cast<double>(step));
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
};

/// The bytes that this process has read so far (proc(5)).
int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string key;
  int64_t bytes = 0;
  file >> key >> bytes;
  return key == "rchar:" ? bytes : -1;
}

TEST_F(MetricsSampleTest, HasNothingWithoutAFile) {
  const MetricsSample sample = sample_metrics(path_, 3);
  EXPECT_TRUE(sample.losses.empty());
  EXPECT_TRUE(sample.validations.empty());
}

TEST_F(MetricsSampleTest, HasAllLossesAndTheLastValidations) {
  std::string log;
  for (int64_t step = 10; step <= 100; step += 10) {
    log += interval(step);
    if (step % 20 == 0) {
      log += fmt::format("{{\"step\":{},\"type\":\"validation\",\"valid_loss\":2.5,\"valid_bleu\":{}}}\n",
                         step, step / 10);
    }
    if (step == 50)
      log += "{\"step\":50,\"type\":\"event\",\"event\":\"valid_script\"}\ndamaged \"loss\":\n\n";
  }
  write(log + R"({"step":110,"type":"interval","loss":0.)");  // killed while it was written
  const MetricsSample sample = sample_metrics(path_, 3);
  ASSERT_EQ(sample.losses.size(), 10U);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sample.losses[i].step, static_cast<int64_t>(10 * (i + 1)));
    EXPECT_DOUBLE_EQ(sample.losses[i].loss, 10.0 / static_cast<double>(i + 1));
  }
  ASSERT_EQ(sample.validations.size(), 3U);
  for (const size_t i : {0U, 1U, 2U}) {
    EXPECT_EQ(sample.validations[i].step, static_cast<int64_t>(100 - 20 * i));
    EXPECT_EQ(sample.validations[i].loss, 2.5);
    EXPECT_EQ(sample.validations[i].bleu, 10.0 - 2.0 * static_cast<double>(i));
    EXPECT_FALSE(sample.validations[i].perplexity);
    EXPECT_FALSE(sample.validations[i].chrf);
  }
}

TEST_F(MetricsSampleTest, OfALargeLogItReadsAPart) {
  constexpr int64_t kLines = 400000;
  {
    std::ofstream file(path_, std::ios::binary);
    file << R"({"step":0,"type":"validation","valid_loss":9})"
         << "\n";
    for (int64_t step = 1; step <= kLines; ++step) file << interval(step);
    file << R"({"step":400000,"type":"validation","valid_chrf":55.5})"
         << "\n";
  }
  ASSERT_GT(std::filesystem::file_size(path_), 3U * (kSampledBytes + kValidationBytes));
  const int64_t before = bytes_read();
  const MetricsSample sample = sample_metrics(path_, 3);
  ASSERT_GE(before, 0);
  EXPECT_LE(bytes_read() - before, kSampledBytes + kValidationBytes + (int64_t{1} << 18));
  ASSERT_EQ(sample.losses.size(), 256U);
  EXPECT_EQ(sample.losses.front().step, 1);
  EXPECT_GE(sample.losses.back().step, kLines - 100);
  for (size_t i = 1; i < sample.losses.size(); ++i) {  // at equal distances
    const int64_t distance = sample.losses[i].step - sample.losses[i - 1].step;
    EXPECT_NEAR(static_cast<double>(distance), kLines / 255.0, 0.1 * kLines / 255.0) << i;
  }
  ASSERT_EQ(sample.validations.size(), 1U);  // the first is too far from the end
  EXPECT_EQ(sample.validations[0].chrf, 55.5);
}

TEST_F(MetricsSampleTest, RefusesWhatItCannotRead) {
  write("{\"step\":1,\"loss\":1.0,\"format\":\"ventris metrics 99\"}\n");
  EXPECT_THROW(sample_metrics(path_, 3), data::NewerFormat);
  EXPECT_THROW(sample_metrics(folder_ / "", 3), Error);
}

}  // namespace
}  // namespace ventris
