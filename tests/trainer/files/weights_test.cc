// SPDX-License-Identifier: Apache-2.0
#include "trainer/files/weights.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/error.h"
#include "data/error.h"
#include "data/files/element_type.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
#include "tests/trainer/small_model.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/config_json.h"
#include "trainer/files/run_folder.h"

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
      std::vector<int64_t> dimensions = {parameter.rows, parameter.cols};
      if (parameter.vector) dimensions = {parameter.cols};
      writer.write("/model/" + parameter.name, data::ElementType::kF32, dimensions, values.data());
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

TEST_F(WeightsFile, HoldsLogicalParametersWithTheirOwnNamesAndShapes) {
  const SmallModel model(small_config(), 5);
  const data::Hdf5Reader reader(save(model, "weights.h5"));
  EXPECT_EQ(reader.dimensions("/model/embedding"), (std::vector<int64_t>{64, 16}));
  EXPECT_EQ(reader.dimensions("/model/encoder/layers/0/self_attention/key/weight"),
            (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(reader.dimensions("/model/decoder/layers/1/cross_attention/value/bias"),
            (std::vector<int64_t>{16}));
  EXPECT_EQ(reader.dimensions("/model/decoder/layers/0/feed_forward/outer/weight"),
            (std::vector<int64_t>{24, 16}));
  EXPECT_EQ(reader.string_attribute("/", "provenance"), "a test");
  const LogicalParameter* key = model.store.find("encoder/layers/0/self_attention/key/weight");
  ASSERT_NE(key, nullptr);
  std::vector<float> values(16 * 16);
  reader.read("/model/" + key->name, data::ElementType::kF32, std::vector<int64_t>{16, 16}, values.data());
  const Tensor block = model.store.logical_value(*key);
  for (int64_t r = 0; r < 16; ++r) {
    for (int64_t c = 0; c < 16; ++c)
      ASSERT_EQ(values[static_cast<size_t>(r * 16 + c)], block.row<float>(r)[c]);
  }
}

TEST_F(WeightsFile, OfTheSameModelIsTheSameBytes) {
  const SmallModel model(small_config(), 5);
  const std::string first = content(save(model, "a.h5"));
  EXPECT_GT(first.size(), 1000U);
  EXPECT_EQ(first, content(save(model, "b.h5")));
  const SmallModel other(small_config(), 6);
  EXPECT_NE(first, content(save(other, "c.h5")));
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
  expect_failure<Error>([&] { load_model(context_, save_changed(model, "a.h5", name, "", 0), DType::kF32); },
                        ExitCode::kBadData, {path("a.h5"), name, "missing"});
  expect_failure<Error>(
      [&] { load_model(context_, save_changed(model, "b.h5", "", "encoder/extra", 0), DType::kF32); },
      ExitCode::kBadData, {path("b.h5"), "encoder/extra", "unknown"});
  expect_failure<Error>(
      [&] { load_model(context_, save_changed(model, "c.h5", name, name, 0), DType::kF32); },
      ExitCode::kBadData, {path("c.h5"), name, "[2, 3]", "[16]"});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    expect_failure<Error>(
        [&] { load_model(context_, save_changed(model, "d.h5", "", "", bad), DType::kF32); },
        ExitCode::kBadData, {path("d.h5"), "decoder/layers/1/feed_forward/inner/weight", "NaN or Inf"});
  }
  EXPECT_NE(load_model(context_, save_changed(model, "e.h5", "", "", 1.0F), DType::kF32), nullptr);
}

TEST_F(WeightsFile, IsCheckedWithoutItsValuesAsItIsLoaded) {
  const SmallModel model(small_config());
  const std::string name = "encoder/layers/0/feed_forward/norm/gamma";
  const auto check = [&](const std::string& left_out, const std::string& added, float value) {
    const std::string file = save_changed(model, "changed.h5", left_out, added, value);
    return [file] { check_model(data::Hdf5Reader(file)); };
  };
  const std::string file = path("changed.h5");
  expect_failure<Error>(check(name, "", 0), ExitCode::kBadData, {file, name, "missing"});
  expect_failure<Error>(check("", "encoder/extra", 0), ExitCode::kBadData,
                        {file, "encoder/extra", "unknown"});
  expect_failure<Error>(check(name, name, 0), ExitCode::kBadData, {file, name, "[2, 3]", "[16]"});
  EXPECT_NO_THROW(check("", "", std::numeric_limits<float>::quiet_NaN())());
}

TEST_F(WeightsFile, RefusesADamagedForeignOrMissingFile) {
  const SmallModel model(small_config());
  const std::string whole = content(save(model, "weights.h5"));
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  write(path("flipped.h5"), flipped);
  write(path("short.h5"), whole.substr(0, whole.size() - 100));
  write(path("text.h5"), "Dies ist ein Text.\n");
  using data::DataError;
  using data::ErrorKind;
  const auto load = [&](const std::string& name) {
    return [this, name] { load_model(context_, path(name), DType::kF32); };
  };
  expect_failure<DataError>(load("flipped.h5"), ErrorKind::kBadData, {path("flipped.h5")});
  expect_failure<DataError>(load("short.h5"), ErrorKind::kBadData, {path("short.h5")});
  expect_failure<DataError>(load("text.h5"), ErrorKind::kBadData, {path("text.h5")});
  expect_failure<DataError>(load("none.h5"), ErrorKind::kMissingInput, {path("none.h5")});
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
