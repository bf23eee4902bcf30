#include "trainer/files/config_json.h"

#include <gtest/gtest.h>

#include <string>

#include "backend/error.h"
#include "trainer/files/json_text.h"

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
  const std::string before = resume_signature(TrainOptions());
  const auto changed_by = [&](const char* key, const auto& change) {
    EXPECT_EQ(text.find(key), std::string::npos);
    EXPECT_EQ(before.find(key), std::string::npos);
    TransformerConfig config = awkward_config();
    TrainOptions options;
    change(config);
    change(options.model);
    EXPECT_NE(to_json(config).find(key), std::string::npos);
    EXPECT_EQ(transformer_config_from_json(to_json(config), "here"), config);
    EXPECT_NE(resume_signature(options).find(key), std::string::npos);
    expect_refused(text.substr(0, text.size() - 1) + ",\"" + key + "\":\"x\"}", key);
  };
  changed_by("zero_word", [](TransformerConfig& config) { config.zero_word = 1; });
  changed_by("marian_positions", [](TransformerConfig& config) { config.marian_positions = true; });
  changed_by("zero_start", [](TransformerConfig& config) { config.zero_start = true; });
  changed_by("swish", [](TransformerConfig& config) { config.swish = true; });
  changed_by("output_bias", [](TransformerConfig& config) { config.output_bias = true; });
}

TEST(ConfigJson, RefusesAMissingAnUnknownAndAWrongKeyByName) {
  std::string text = to_json(awkward_config());
  expect_refused("[1, 2]", "not a JSON object");
  expect_refused(text + std::string(kMostJsonBytes, ' '), "of at most 65536 bytes");
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
  expect_refused(
      with("\"heads\":8", "\"heads\":4294967304"),
      "heads of the model's configuration is 4294967304; expected is an integer from -2147483648 to "
      "2147483647");
  expect_refused(with("\"heads\":8", "\"heads\":-4294967288"), "heads");
  expect_refused(with("\"heads\":8", "\"heads\":8.0"), "heads of the model's configuration is 8.0");
  // 2^64 + 10007 is no integer of JSON's any more; 2^63 is one that is not ours.
  expect_refused(with("\"vocab_size\":10007", "\"vocab_size\":18446744073709561623"), "vocab_size");
  expect_refused(with("\"vocab_size\":10007", "\"vocab_size\":9223372036854775808"),
                 "from -9223372036854775808 to 9223372036854775807");
  expect_refused(with("\"dropout\":0.3", "\"dropout\":1e39"), "dropout");
  expect_refused(with("\"pre_norm\":true", "\"pre_norm\":1"), "expected is true or false");
}

TEST(ConfigJson, OfARunIsReadBackExactly) {
  TrainOptions options = preset_options("tiny");
  options.model = awkward_config();
  options.corpus = "folder/\"corpus\".h5";
  options.seed = ~uint64_t{0};
  options.beta2 = 0.997F;
  options.ema = 0.1 + 0.2;
  options.precision = DType::kBF16;
  options.on_divergence = OnDivergence::kRepair;
  options.valid_chrf = true;
  options.max_steps = (int64_t{1} << 32) - 1;
  const std::string text = to_json(options);
  const TrainOptions read = train_options_from_json(text, "config.json");
  EXPECT_EQ(to_json(read), text);
  const std::string recorded = to_json(options, R"({"onednn": "2.6.3"})");
  EXPECT_NE(recorded.find("2.6.3"), std::string::npos);
  EXPECT_EQ(to_json(train_options_from_json(recorded, "config.json")), text);
  EXPECT_EQ(read.seed, options.seed);
  EXPECT_EQ(read.ema, options.ema);
  EXPECT_EQ(read.model, options.model);
  EXPECT_EQ(read.on_divergence, OnDivergence::kRepair);
}

TEST(ConfigJson, OfARunRefusesWhatItDoesNotKnowAndTakesDefaultsForWhatIsMissing) {
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
  expect_refused_options(replaced("\"precision\": \"f32\"", "\"precision\": \"f8\""), "precision is \"f8\"");
  expect_refused_options(replaced("\"keep_checkpoints\": 10", "\"keep_checkpoints\": 4294967306"),
                         "keep_checkpoints is 4294967306");
  expect_refused_options(replaced("\"seed\": 1,", "\"seed\": -1,"), "from 0 to 18446744073709551615");
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
  options = {};
  options.reduction = Reduction::kReproducible;
  EXPECT_NE(resume_signature(options), before);
}

}  // namespace
}  // namespace ventris
