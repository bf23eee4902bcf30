// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/file_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/device/error.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/parameter_digest.h"
#include "trainer/exchange/export.h"
#include "trainer/exchange/probe.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::flat_values;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

constexpr FilePrecision kRounded[] = {FilePrecision::kBF16, FilePrecision::kInt8};
constexpr const char* kQuery = "encoder/layers/0/self_attention/query/weight";

class FileOfPrecision : public testing::FolderTest {
 protected:
  Context context_{ContextOptions{}};

  std::unique_ptr<LoadedModel> load(const std::string& name) {
    return load_model(context_, path(name), DType::kF32);
  }
  std::string save(const SmallModel& model, const std::string& name) {
    save_weights(context_, path(name), model.config, model.store, small_tokenizer_models(), "");
    return name;
  }
  void export_to(const std::string& from, const std::string& to, FilePrecision precision) {
    const bool safetensors = to.ends_with(".safetensors");
    export_model(context_, *load(from), safetensors ? ExportFormat::kSafetensors : ExportFormat::kHdf5,
                 path(to), "a test", precision);
  }
  Array get(const LoadedModel& model, const std::string& name) {
    return ModelArrays(context_, model.store, ChannelOrder::kPairs).get(name);
  }
};

/// Scales of 16 bits, and products that are exact: what was rounded once is rounded to the same.
TEST(Int8Matrix, OfRoundedValuesIsTheSame) {
  Array array{.rows = 7, .cols = 5, .vector = false, .values = {}};
  for (int i = 0; i < 35; ++i) array.values.push_back(std::sin(1.7F * static_cast<float>(i * i)) * 0.37F);
  array.values[9] = -3e38F / 2.0F;
  for (int r = 0; r < 7; ++r) array.values[static_cast<size_t>(5 * r)] = 0.0F;  // a column
  for (const Outputs outputs : {Outputs::kRows, Outputs::kColumns}) {
    const bool rows = outputs == Outputs::kRows;
    const Int8Matrix first = int8_matrix(array, outputs);
    ASSERT_EQ(first.scales.size(), rows ? 7U : 5U);
    EXPECT_EQ(first.scales[0] == 0.0F, !rows);
    Array again = array;
    std::vector<int> greatest(first.scales.size());
    for (size_t i = 0; i < 35; ++i) {
      const size_t output = rows ? i / 5 : i % 5;
      const float scale = first.scales[output];
      const auto q = static_cast<float>(first.values[i]);
      again.values[i] = scale * q;
      EXPECT_EQ(static_cast<double>(again.values[i]), static_cast<double>(scale) * static_cast<double>(q));
      EXPECT_LE(std::abs(again.values[i] - array.values[i]), 0.501F * scale) << i;
      greatest[output] = std::max(greatest[output], std::abs(static_cast<int>(q)));
    }
    for (size_t i = 0; i < greatest.size(); ++i) EXPECT_EQ(greatest[i], first.scales[i] > 0 ? 127 : 0);
    const Int8Matrix second = int8_matrix(again, outputs);
    EXPECT_EQ(second.values, first.values);
    EXPECT_EQ(second.scales, first.scales);
  }
}

TEST_F(FileOfPrecision, HoldsMatricesRoundedAndAllElseAsItIs) {
  const SmallModel model(small_config(/*pre_norm=*/true, /*learned_positions=*/true), 5);
  save(model, "w.h5");
  const auto original = load("w.h5");
  for (const FilePrecision precision : kRounded) {
    for (const char* name : {"r.h5", "r.safetensors"}) {
      export_to("w.h5", name, precision);
      const auto rounded = load(name);
      for (const LogicalParameter& parameter : model.store.logical()) {
        const Array before = get(*original, parameter.name);
        const Array after = get(*rounded, parameter.name);
        const bool multiplied = parameter.name == "embedding" || parameter.name.ends_with("/weight");
        EXPECT_EQ(before.values != after.values, multiplied) << name << parameter.name;
        if (!multiplied) continue;
        const Int8Matrix matrix = int8_matrix(before, outputs_of(parameter));
        for (size_t i = 0; i < before.values.size(); ++i) {
          const size_t cols = static_cast<size_t>(before.cols);
          const float scale = matrix.scales[parameter.name == "embedding" ? i / cols : i % cols];
          const float expected = precision == FilePrecision::kInt8
                                     ? scale * static_cast<float>(matrix.values[i])
                                     : static_cast<float>(BF16(before.values[i]));
          ASSERT_EQ(after.values[i], expected) << name << parameter.name << i;
        }
      }
    }
  }
}

TEST_F(FileOfPrecision, ExportedAgainHasTheSameParametersByteForByte) {
  const SmallModel model(small_config(), 5);
  save(model, "w.h5");
  for (const FilePrecision precision : kRounded) {
    for (const std::string extension : {".h5", ".safetensors"}) {
      export_to("w.h5", "first" + extension, precision);
      export_to("first" + extension, "second" + extension, precision);
      export_to("first" + extension, "f32.h5", FilePrecision::kF32);
      const auto first = load("first" + extension);
      const std::string bytes = content(path("first" + extension));
      EXPECT_TRUE(bytes == content(path("second" + extension))) << extension;
      EXPECT_EQ(flat_values(load("f32.h5")->store), flat_values(first->store)) << extension;
      EXPECT_EQ(load("f32.h5")->probes, first->probes);
      // Of the rounded values; those of the file itself are checked by load().
      EXPECT_NE(bytes.find(parameter_digest(context_, first->store)), std::string::npos) << extension;
      const std::vector<Probe> probes = probes_from_json(first->probes, "a test");
      EXPECT_EQ(probes.size(), 3U);
      EXPECT_LT(check_probes(context_, *first, probes, 1e-5), 1e-5);
    }
  }
}

TEST_F(FileOfPrecision, OfNumbersThatAreTooLargeIsNotWritten) {
  for (const FilePrecision precision : kRounded) {
    SmallModel model(small_config(), 5);
    model.store.logical_value(*model.store.find(kQuery)).row<float>(3)[2] = std::numeric_limits<float>::max();
    save(model, "large.h5");
    expect_failure<Error>([&] { export_to("large.h5", "no.h5", precision); }, ExitCode::kBadData,
                          {"large.h5", kQuery, "too large for", name_of(precision)});
    EXPECT_FALSE(std::filesystem::exists(path("no.h5")));
  }
}

}  // namespace
}  // namespace ventris
