// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/device/error.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/options/model_config.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::flat_values;
using testing::small_config;
using testing::small_tokenizer_model;
using testing::small_tokenizer_models;
using testing::SmallModel;

class WeightsFile : public testing::FolderTest {
 protected:
  Context context_{ContextOptions{}};

  std::string save(const SmallModel& model, const std::string& name) {
    save_weights(context_, path(name), model.config, model.store, small_tokenizer_models(), "a test");
    return path(name);
  }

  /// A weights file in which one parameter is changed: left out, renamed, reshaped, or with one value
  /// replaced.
  std::string save_changed(const SmallModel& model, const std::string& name, const std::string& left_out,
                           const std::string& added, float first_value) {
    const std::string file = path(name);
    data::Hdf5Writer writer(file);
    for (const LogicalParameter& parameter : model.store.logical()) {
      if (parameter.name == left_out) continue;
      std::vector<float> values(static_cast<size_t>(parameter.rows * parameter.cols), 0.25F);
      if (parameter.name == "decoder/layers/1/feed_forward/inner/weight") values[3] = first_value;
      writer.write("/model/" + parameter.name, data::ElementType::kF32, shape_in_files(parameter),
                   values.data());
    }
    if (!added.empty()) {
      const std::vector<float> values(6, 0.0F);
      writer.write("/model/" + added, data::ElementType::kF32, std::vector<int64_t>{2, 3}, values.data());
    }
    const std::string& tokenizer = small_tokenizer_model();
    writer.write("/tokenizer", data::ElementType::kU8,
                 std::vector<int64_t>{static_cast<int64_t>(tokenizer.size())}, tokenizer.data());
    writer.write_attribute("/", "config", to_json(model.config));
    writer.write_attribute("/", "format", std::string("ventris weights 1"));
    writer.commit();
    return file;
  }
};

TEST_F(WeightsFile, GivesBackEveryParameterBitForBit) {
  for (const bool pre_norm : {false, true}) {
    for (const bool learned : {false, true}) {
      const SmallModel model(small_config(pre_norm, learned), 5);
      const std::string file = save(model, "weights.h5");
      const auto loaded = load_model(context_, file, DType::kF32);
      EXPECT_EQ(loaded->path, file);
      EXPECT_EQ(loaded->config, model.config);
      EXPECT_EQ(loaded->tokenizers->models(), small_tokenizer_models());
      EXPECT_EQ(flat_values(loaded->store), flat_values(model.store)) << pre_norm << learned;
    }
  }
}

TEST_F(WeightsFile, LoadedInBf16HasTheMastersAndTheirRoundedCopy) {
  const SmallModel model(small_config(), 5);
  const auto loaded = load_model(context_, save(model, "weights.h5"), DType::kBF16);
  EXPECT_EQ(flat_values(loaded->store), flat_values(model.store));
  const ConstTensor embedding = loaded->store.value(loaded->ids.target_embedding);
  ASSERT_EQ(embedding.dtype, DType::kBF16);
  const float* master = model.store.values().as<float>() + model.store.offset(loaded->ids.target_embedding);
  for (int64_t i = 0; i < 64 * 16; ++i) ASSERT_EQ(embedding.as<BF16>()[i].bits, BF16(master[i]).bits);
}

TEST_F(WeightsFile, RefusesAMissingUnknownReshapedOrDivergedParameter) {
  const SmallModel model(small_config());
  const std::string name = "encoder/layers/0/feed_forward/norm/gamma";
  struct Case {
    std::string left_out, added;
    float value;
    std::vector<std::string> says;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::string inner = "decoder/layers/1/feed_forward/inner/weight";
  const Case cases[] = {{name, "", 0, {name, "missing"}},
                        {"", "encoder/extra", 0, {"encoder/extra", "unknown"}},
                        {name, name, 0, {name, "[2, 3]", "[16]"}},
                        {"", "", std::nanf(""), {inner, "NaN or Inf"}},
                        {"", "", -infinity, {inner, "NaN or Inf"}}};
  for (const Case& of : cases) {
    const std::string file = save_changed(model, "changed.h5", of.left_out, of.added, of.value);
    std::vector<std::string> says = of.says;
    says.push_back(file);
    expect_failure<Error>([&] { load_model(context_, file, DType::kF32); }, ExitCode::kBadData, says);
    const auto check = [&] { check_model(data::Hdf5Reader(file)); };  // reads no values
    if (of.value == 0) {
      expect_failure<Error>(check, ExitCode::kBadData, says);
    } else {
      EXPECT_NO_THROW(check());
    }
  }
  EXPECT_NE(load_model(context_, save_changed(model, "sound.h5", "", "", 1.0F), DType::kF32), nullptr);
}

TEST_F(WeightsFile, RefusesAFileOfAnotherKind) {
  data::Hdf5Writer writer(path("corpus.h5"));
  const std::vector<int32_t> tokens = {1, 2, 3};
  writer.write("/source/tokens", data::ElementType::kI32, std::vector<int64_t>{3}, tokens.data());
  writer.commit();
  expect_failure<Error>([&] { load_model(context_, path("corpus.h5"), DType::kF32); }, ExitCode::kBadData,
                        {path("corpus.h5"), "expected a checkpoint or a weights file"});
}

TEST_F(WeightsFile, RefusesATokenizerOfAnotherSize) {
  TransformerConfig config = small_config();
  config.vocab_size = 65;
  const SmallModel model(config);
  const std::string file = save(model, "weights.h5");
  expect_failure<Error>([&] { load_model(context_, file, DType::kF32); }, ExitCode::kBadData,
                        {file, "64", "65"});
}

TEST_F(WeightsFile, OfARunFolderIsTheBestCheckpointElseTheNewest) {
  expect_failure<Error>([&] { load_model(context_, folder_.string(), DType::kF32); }, ExitCode::kMissingInput,
                        {folder_.string(), "no checkpoint"});
  std::vector<std::string> files;
  for (const int64_t step : {100, 200, 300}) {
    const SmallModel model(small_config(), static_cast<uint64_t>(step));
    std::vector<float> zeros(static_cast<size_t>(model.store.flat_size()));
    const Tensor moment{zeros.data(), 1, model.store.flat_size(), model.store.flat_size(), DType::kF32};
    TrainingState state;
    state.step = step;
    files.push_back(save_checkpoint(context_, folder_.string(), state, model.config, model.store,
                                    {.m = moment, .v = moment}, small_tokenizer_models(), ""));
  }
  EXPECT_EQ(load_model(context_, folder_.string(), DType::kF32)->path, files[2]);
  write_best(folder_.string(), {.checkpoint = files[1], .metric = "bleu", .value = 30.0});
  const auto best = load_model(context_, folder_.string(), DType::kF32);
  EXPECT_EQ(best->path, files[1]);
  EXPECT_EQ(flat_values(best->store), flat_values(SmallModel(small_config(), 200).store));
}

}  // namespace
}  // namespace ventris
