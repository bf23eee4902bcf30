// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/device/error.h"
#include "data/error.h"
#include "data/io/element_type.h"
#include "data/io/hdf5_writer.h"
#include "data/io/safetensors.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/file_precision.h"
#include "trainer/exchange/export.h"
#include "trainer/options/model_config.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::small_config;
using testing::small_tokenizer_model;
using testing::SmallModel;

constexpr const char* kForgedQuery = "encoder/layers/0/self_attention/query/weight";

/// Writes files in int8 in which one thing is wrong.
class ForgedFile : public testing::FolderTest {
 protected:
  Context context_{ContextOptions{}};

  std::unique_ptr<LoadedModel> load(const std::string& name) {
    return load_model(context_, path(name), DType::kF32);
  }

  struct Forgery {
    std::string format = "ventris weights 2";
    std::string precision = "int8";
    float scale = 0.5F;  // the second of the query's
    int8_t q = 127;      // the third of the query's
    bool transposed_scales = false;
    bool scales = true;  // of the query
    data::ElementType type = data::ElementType::kI8;
    std::string more_scales = "";  // of a parameter that has none
  };

  std::string forge(const Forgery& forgery) {
    const SmallModel model(small_config());
    data::Hdf5Writer writer(path("forged.h5"));
    const std::vector<float> ones(64 * 24, 1.0F);
    for (const LogicalParameter& parameter : model.store.logical()) {
      for (StoredArray array : arrays_of(parameter, FilePrecision::kInt8)) {
        const bool scales = array.name.starts_with(kScales);
        std::vector<int8_t> integers(ones.size() * sizeof(float), 127);
        std::vector<float> floats(ones.size(), scales ? 0.5F : 1.0F);
        const bool of_integers = array.type == data::ElementType::kI8;
        if (parameter.name == kForgedQuery && scales) {
          if (!forgery.scales) continue;
          floats[1] = forgery.scale;
          if (forgery.transposed_scales) std::swap(array.shape[0], array.shape[1]);
        } else if (parameter.name == kForgedQuery) {
          integers[2] = forgery.q;
          array.type = forgery.type;
        }
        writer.write((scales ? "/model_scales/" : "/model/") + parameter.name, array.type, array.shape,
                     of_integers ? static_cast<const void*>(integers.data()) : floats.data());
      }
    }
    if (!forgery.more_scales.empty()) {
      writer.write("/model_scales/" + forgery.more_scales, data::ElementType::kF32, std::vector<int64_t>{16},
                   ones.data());
    }
    const std::string& tokenizer = small_tokenizer_model();
    writer.write("/tokenizer", data::ElementType::kU8, std::vector<int64_t>{std::ssize(tokenizer)},
                 tokenizer.data());
    writer.write_attribute("/", "config", to_json(model.config));
    writer.write_attribute("/", "format", forgery.format);
    if (!forgery.precision.empty()) writer.write_attribute("/", "precision", forgery.precision);
    writer.commit();
    return "forged.h5";
  }

  template <typename Failure = Error, typename Code = ExitCode>
  void refuse(const Forgery& forgery, const std::vector<std::string>& says, Code code = ExitCode::kBadData) {
    std::vector<std::string> all = says;
    all.push_back(path("forged.h5"));
    forge(forgery);
    expect_failure<Failure>([&] { load("forged.h5"); }, code, all);
  }
  void refuse_data(const Forgery& forgery, const std::vector<std::string>& says) {
    refuse<data::DataError>(forgery, says, data::ErrorKind::kBadData);
  }
};

TEST_F(ForgedFile, IsRefusedForWhatIsWrong) {
  EXPECT_NE(load(forge({})), nullptr);
  EXPECT_NE(load(forge({.scale = 0.0F})), nullptr);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float scale : {-0.5F, -0.0F, std::nanf(""), infinity, -infinity, 1.0F / 3.0F, 1e-40F}) {
    refuse({.scale = scale}, {kForgedQuery, "a scale"});
  }
  refuse({.scale = 3e38F}, {kForgedQuery, "a scale"});
  refuse({.scale = 0x1p127F}, {kForgedQuery, "NaN or Inf"});
  refuse({.q = -128}, {kForgedQuery, "-128"});
  refuse({.scales = false}, {"scales/", kForgedQuery, "is missing"});
  refuse({.precision = "int4"}, {"'int4'", "bf16 or int8"});
  refuse({.precision = "f32"}, {"'f32'", "bf16 or int8"});
  refuse({.format = "ventris weights 0"}, {"'ventris weights 0'"});
  refuse_data({.format = "ventris weights 3"}, {"'ventris weights'", "version 3", "up to 2"});
  refuse({.more_scales = "encoder/extra/weight"}, {"encoder/extra/weight", "unknown"});
  refuse({.more_scales = "encoder/layers/0/feed_forward/norm/gamma"}, {"scales/", "norm/gamma", "unknown"});
  refuse({.transposed_scales = true}, {"scales/", kForgedQuery, "[16, 1]", "[1, 16]"});
  refuse_data({.precision = ""}, {"precision"});
  refuse({.type = data::ElementType::kF32}, {kForgedQuery, "f32", "i8"});
  refuse({.type = data::ElementType::kU8}, {kForgedQuery, "u8", "i8"});
  refuse({.precision = "bf16"}, {"scales/", "unknown"});
  refuse({.format = "ventris weights 1"},
         {"scales/", "unknown"});  // of files of f32 the precision is no matter
}

TEST_F(ForgedFile, OfSafetensorsIsRefusedForWhatIsWrong) {
  const auto model = load(forge({}));
  export_model(context_, *model, ExportFormat::kSafetensors, path("w.safetensors"), "", FilePrecision::kInt8);
  const std::string whole = content(path("w.safetensors"));
  const std::vector<uint8_t> bytes(whole.begin(), whole.end());
  const data::SafetensorsFile file(bytes, "w.safetensors");
  const std::string scales_name = std::string("scales/") + kForgedQuery;
  const auto refuse = [&](const std::string& left_out, const std::string& name, const std::string& data,
                          const std::string& format, const std::vector<std::string>& says) {
    data::SafeMetadata metadata = {{"format", format}, {"config", to_json(small_config())}};
    if (format.ends_with("2")) metadata.emplace_back("precision", "int8");
    std::vector<data::SafeTensor> tensors;
    for (const data::SafeTensor& tensor : file.tensors()) {
      if (tensor.name != left_out) tensors.push_back(tensor);
    }
    data::write_safetensors(path("forged.safetensors"), metadata, tensors,
                            [&](const data::SafeTensor& tensor) -> std::string_view {
                              if (tensor.name == name) return data;
                              const auto original = file.data(tensor);
                              return {reinterpret_cast<const char*>(original.data()), original.size()};
                            });
    if (says.empty()) {
      EXPECT_NE(load("forged.safetensors"), nullptr);
    } else {
      expect_failure<Error>([&] { load("forged.safetensors"); }, ExitCode::kBadData, says);
    }
  };
  const std::string ours = "ventris safetensors 2";
  refuse("", "", "", ours, {});
  refuse(scales_name, "", "", ours, {scales_name, "missing"});
  refuse("", kForgedQuery, std::string(16 * 16, '\x80'), ours, {kForgedQuery, "-128"});
  refuse("", scales_name, std::string(16 * 4, '\xFF'), ours, {kForgedQuery, "a scale"});
  refuse("", "", "", "ventris safetensors 1", {"scales/", "unknown"});
  refuse("", "", "", "ventris safetensors 0", {"'ventris safetensors 0'"});
}

}  // namespace
}  // namespace ventris
