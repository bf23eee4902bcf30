// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "backend/device/error.h"
#include "data/demo_corpus/phrases.h"
#include "data/text/tokenizer_training.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/weights.h"
#include "trainer/exchange/average.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::flat_values;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

class Average : public testing::FolderTest {
 protected:
  Context context_{ContextOptions{}};

  std::string save(const SmallModel& model, const std::string& name) {
    save_weights(context_, path(name), model.config, model.store, small_tokenizer_models(), "a test");
    return path(name);
  }
  std::vector<float> loaded(const std::string& name) {
    return flat_values(load_model(context_, path(name), DType::kF32)->store);
  }
};

TEST_F(Average, IsTheMeanOfEveryParameter) {
  std::vector<std::string> files;
  std::vector<std::vector<float>> values;
  for (const uint64_t seed : {1, 2, 3}) {
    const SmallModel model(small_config(), seed);
    files.push_back(save(model, std::to_string(seed) + ".h5"));
    values.push_back(flat_values(model.store));
  }
  average_checkpoints(files, path("average.h5"), "a test");
  const std::vector<float> average = loaded("average.h5");
  bool moved = false;
  for (size_t i = 0; i < average.size(); ++i) {
    const double sum = static_cast<double>(values[0][i]) + values[1][i] + values[2][i];
    ASSERT_EQ(average[i], static_cast<float>(sum / 3.0)) << i;
    moved |= average[i] != values[0][i];
  }
  EXPECT_TRUE(moved);
}

TEST_F(Average, OfOneCheckpointIsItsWeightsFile) {
  const SmallModel model(small_config(), 4);
  std::vector<float> zeros(static_cast<size_t>(model.store.flat_size()));
  const Tensor moment{zeros.data(), 1, model.store.flat_size(), model.store.flat_size(), DType::kF32};
  TrainingState state;
  state.step = 5;
  const std::string checkpoint = save_checkpoint(context_, folder_.string(), state, model.config, model.store,
                                                 {.m = moment, .v = moment}, small_tokenizer_models(), "");
  average_checkpoints({checkpoint}, path("average.h5"), "a test");
  save(model, "weights.h5");
  EXPECT_EQ(content(path("average.h5")), content(path("weights.h5")));
}

TEST_F(Average, RefusesModelsThatDoNotBelongTogether) {
  const std::string first = save(SmallModel(small_config()), "a.h5");
  const std::string other_shape = save(SmallModel(small_config(/*pre_norm=*/true)), "b.h5");
  expect_failure<Error>(
      [&] {
        average_checkpoints({first, other_shape}, path("out.h5"), "");
      },
      ExitCode::kBadData, {other_shape, "pre_norm"});
  std::vector<std::string> sentences;
  for (int64_t n = 0; n < 200; ++n) sentences.push_back(data::demo::german_cardinal(n * 41));
  data::TokenizerTraining training;
  training.vocab_size = 64;
  const SmallModel model(small_config());
  save_weights(context_, path("c.h5"), model.config, model.store,
               {.target = data::train_tokenizer(sentences, training), .source = {}}, "");
  expect_failure<Error>(
      [&] {
        average_checkpoints({first, path("c.h5")}, path("out.h5"), "");
      },
      ExitCode::kBadData, {path("c.h5"), "another tokenizer", "token "});
  expect_failure<Error>([&] { average_checkpoints({}, path("out.h5"), ""); }, ExitCode::kUsage, {});
  EXPECT_FALSE(std::filesystem::exists(path("out.h5")));
}

}  // namespace
}  // namespace ventris
