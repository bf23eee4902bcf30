// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_options_json.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/device/error.h"

namespace ventris {
namespace {

TEST(TrainOptionsJson, IsReadBackExactly) {
  TrainOptions options = preset_options("tiny");
  options.model.encoder_layers = 3;
  options.model.pre_norm = true;
  options.model.dropout = 0.3F;
  options.model.layer_norm_epsilon = 1.1920929e-7F;
  options.corpus = "folder/\"corpus\".h5";
  options.seed = ~uint64_t{0};
  options.beta2 = 0.997F;
  options.ema = 0.1 + 0.2;
  options.sample_source = 0.1;
  options.sample_target = 0.7;
  options.precision = Precision::kBF16;
  options.valid_metric = "chrf";
  options.max_steps = (int64_t{1} << 32) - 1;
  options.tie = "all";  // as it is resolved before it is recorded
  options.freeze = {"encoder/*", "embed\"ding"};
  const std::string text = to_json(options);
  const TrainOptions read = train_options_from_json(text, "config.json");
  EXPECT_EQ(to_json(read), text);
  const std::string recorded = config_json(options, R"({"onednn": "2.6.3"})");
  EXPECT_NE(recorded.find("2.6.3"), std::string::npos);
  EXPECT_EQ(to_json(train_options_from_json(recorded, "config.json")), text);
  EXPECT_EQ(read.seed, options.seed);
  EXPECT_EQ(read.ema, options.ema);
  EXPECT_EQ(read.sample_source, options.sample_source);
  EXPECT_EQ(read.sample_target, options.sample_target);
  EXPECT_EQ(read.freeze, options.freeze);
  EXPECT_EQ(read.model, options.model);
}

TEST(TrainOptionsJson, RefusesWhatItDoesNotKnowAndTakesDefaultsForWhatIsMissing) {
  const std::string text = to_json(TrainOptions{});
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  EXPECT_EQ(train_options_from_json(replaced("\"log_every\": 50,", ""), "config.json").log_every, 50);
  const auto expect_refused_options = [](const std::string& json, const std::string& part) {
    try {
      train_options_from_json(json, "config.json");
      FAIL() << "accepted: " << json;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadData) << error.what();
      EXPECT_NE(std::string(error.what()).find("config.json"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_refused_options("{", "JSON");
  expect_refused_options("{}", "JSON");
  expect_refused_options(replaced("\"log_every\"", "\"colour\""), "colour");
  expect_refused_options(replaced("\"log_every\": 50", "\"log_every\": \"often\""), "log_every is \"often\"");
  expect_refused_options(replaced("\"precision\": \"auto\"", "\"precision\": \"f8\""), "precision is \"f8\"");
  expect_refused_options(replaced("\"keep_checkpoints\": 10", "\"keep_checkpoints\": 4294967306"),
                         "keep_checkpoints is 4294967306");
  for (const char* list : {"\"a\"", "[1]"}) {
    expect_refused_options(replaced("\"freeze\": []", std::string("\"freeze\": ") + list), "a list of texts");
  }
  expect_refused_options(replaced("\"seed\": 1,", "\"seed\": -1,"), "from 0 to 18446744073709551615");
}

}  // namespace
}  // namespace ventris
