#include "trainer/config_json.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/error.h"

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

TEST(ConfigJson, RefusesAMissingAnUnknownAndAWrongKeyByName) {
  std::string text = to_json(awkward_config());
  expect_refused("[1, 2]", "not a JSON object");
  expect_refused("{}", "encoder_layers");
  std::string unknown = text;
  unknown.insert(1, "\"colour\":1,");
  expect_refused(unknown, "colour");
  const size_t at = text.find("\"heads\":8");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 9, "\"heads\":\"8\"");
  expect_refused(text, "heads");
}

TEST(ConfigJson, SignatureHoldsWhatMustNotChangeAndNothingElse) {
  TrainOptions options;
  const std::string before = resume_signature(options);
  options.max_steps = 7;
  options.learning_rate_scale = 3.0;
  options.threads = 5;
  options.valid_every = 1;
  EXPECT_EQ(resume_signature(options), before);
  options.seed = 2;
  EXPECT_NE(resume_signature(options), before);
  options.seed = 1;
  options.model.d_ff = 99;
  EXPECT_NE(resume_signature(options), before);
  options = {};
  options.gradient_dtype = DType::kBF16;
  EXPECT_NE(resume_signature(options), before);
}

}  // namespace
}  // namespace ventris
