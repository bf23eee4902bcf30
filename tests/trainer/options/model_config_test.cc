// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/model_config.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/device/error.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

TransformerConfig awkward_config() {
  TransformerConfig config;
  config.encoder_layers = 3;
  config.vocab_size = 10007;
  config.pre_norm = true;
  config.dropout = 0.3F;
  config.layer_norm_epsilon = 1.1920929e-7F;
  return config;
}

void expect_refused(const std::string& json, const std::string& part) {
  try {
    transformer_config_from_json(json, "weights.h5");
    FAIL() << "accepted: " << json;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadData) << error.what();
    EXPECT_NE(std::string(error.what()).find("weights.h5"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(ConfigJson, RoundTripIsExact) {
  const TransformerConfig config = awkward_config();
  EXPECT_EQ(transformer_config_from_json(to_json(config), "here"), config);
  EXPECT_NE(to_json(config).find("\"dropout\":0.3,"), std::string::npos) << to_json(config);
}

TEST(ConfigJson, NamesWhatCameLaterOnlyWhereItDiffers) {
  const std::string text = to_json(awkward_config());
  const auto changed_by = [&](const char* key, const auto& change) {
    EXPECT_EQ(text.find(key), std::string::npos);
    TransformerConfig config = awkward_config();
    change(config);
    EXPECT_NE(to_json(config).find(key), std::string::npos);
    EXPECT_EQ(transformer_config_from_json(to_json(config), "here"), config);
    expect_refused(text.substr(0, text.size() - 1) + ",\"" + key + "\":\"x\"}", key);
  };
  changed_by("zero_word", [](TransformerConfig& config) { config.zero_token = 1; });
  changed_by("marian_positions", [](TransformerConfig& config) { config.marian_positions = true; });
  changed_by("zero_start", [](TransformerConfig& config) { config.zero_start = true; });
  for (const Activation activation : {Activation::kGelu, Activation::kSwish})
    changed_by("activation", [&](TransformerConfig& config) { config.activation = activation; });
  changed_by("output_bias", [](TransformerConfig& config) { config.output_bias = true; });
}

TEST(ConfigJson, RefusesAMissingAnUnknownAndAWrongKeyByName) {
  std::string text = to_json(awkward_config());
  expect_refused("[1, 2]", "not a JSON object");
  expect_refused(text + std::string(kMaxJsonBytes, ' '), "of at most 65536 bytes");
  expect_refused("{}", "encoder_layers");
  std::string unknown = text;
  unknown.insert(1, "\"colour\":1,");
  expect_refused(unknown, "colour");
  const size_t at = text.find("\"heads\":8");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 9, "\"heads\":\"8\"");
  expect_refused(text, "heads");
}

TEST(ConfigJson, RefusesNumbersBeyondTheirTypeInsteadOfCuttingThem) {
  const std::string text = to_json(awkward_config());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  // 2^32 + 8: its lower half is the right number.
  expect_refused(with("\"heads\":8", "\"heads\":4294967304"),
                 "heads of the model's configuration is 4294967304; "
                 "expected is an integer from 1 to 256");
  expect_refused(with("\"heads\":8", "\"heads\":-4294967288"), "heads");
  expect_refused(with("\"heads\":8", "\"heads\":8.0"), "heads of the model's configuration is 8.0");
  // 2^64 + 10007 is no integer of JSON's any more; 2^63 is one that is not ours.
  expect_refused(with("\"vocab_size\":10007", "\"vocab_size\":18446744073709561623"), "vocab_size");
  expect_refused(with("\"vocab_size\":10007", "\"vocab_size\":9223372036854775808"),
                 "from -9223372036854775808 to 9223372036854775807");
  expect_refused(with("\"dropout\":0.3", "\"dropout\":1e39"), "dropout");
  expect_refused(with("\"pre_norm\":true", "\"pre_norm\":1"), "expected is true or false");
}

}  // namespace
}  // namespace ventris
