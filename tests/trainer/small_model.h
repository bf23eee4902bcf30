// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "backend/device/context.h"
#include "data/demo_corpus/phrases.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_training.h"
#include "model/parameters.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ventris {

/// Writes a checkpoint from the live training state; returns its path.
inline std::string save_checkpoint(Context& context, const std::string& model_dir, const TrainingState& state,
                                   const TransformerConfig& config, const ParameterStore& store,
                                   const OptimizerState& optimizer, const data::TokenizerModels& tokenizers,
                                   const std::string& provenance) {
  CheckpointSnapshot snapshot(context, store, static_cast<bool>(optimizer.average));
  snapshot.take(state, optimizer);
  return write_checkpoint(model_dir, snapshot, config, tokenizers, provenance);
}

namespace testing {

/// A SentencePiece model of 64 tokens.
inline const std::string& small_tokenizer_model() {
  static const std::string model = [] {
    std::vector<std::string> sentences;
    for (int64_t n = 0; n < 200; ++n) sentences.push_back(data::demo::english_cardinal(n * 37));
    data::TokenizerTraining options;
    options.vocab_size = 64;
    return data::train_tokenizer(sentences, options);
  }();
  return model;
}

/// That of both sides.
inline data::TokenizerModels small_tokenizer_models() {
  return {.target = small_tokenizer_model(), .source = {}};
}

inline TransformerConfig small_config(bool pre_norm = false, bool learned_positions = false) {
  TransformerConfig config;
  config.encoder_layers = 1;
  config.decoder_layers = 2;
  config.d_model = 16;
  config.d_ff = 24;
  config.heads = 2;
  config.vocab_size = 64;
  config.pre_norm = pre_norm;
  config.learned_positions = learned_positions;
  config.max_positions = 10;
  return config;
}

inline Context& cpu_context() {
  static Context context(ContextOptions{});
  return context;
}

/// A model with initial parameters of a seed.
struct SmallModel {
  explicit SmallModel(const TransformerConfig& shape, uint64_t seed = 1) : config(shape) {
    declare_transformer(config, store);
    store.allocate(Device::kCpu, DType::kF32, /*gradients=*/false);
    store.initialize(cpu_context(), seed);
  }
  TransformerConfig config;
  ParameterStore store;
};

inline std::vector<float> flat_values(const ParameterStore& store) {
  const float* values = store.values().as<float>();
  return {values, values + store.flat_size()};
}

/// A fresh folder of a test, removed after it.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("ventris-" + std::string(test->test_suite_name()) + test->name() + std::to_string(getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  static void write(const std::string& file, const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
  }

  std::filesystem::path folder_;
};

/// Expects `action` to throw `Failure` with this code (a member function or accessor) and each text in its
/// message.
template <typename Failure, typename Code, typename Action>
void expect_failure(Action&& action, Code code, const std::vector<std::string>& texts) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Failure& failure) {
    if constexpr (requires { failure.kind(); }) {
      EXPECT_EQ(failure.kind(), code) << failure.what();
    } else {
      EXPECT_EQ(failure.code(), code) << failure.what();
    }
    for (const std::string& text : texts) {
      EXPECT_NE(std::string(failure.what()).find(text), std::string::npos)
          << "no '" << text << "' in: " << failure.what();
    }
  }
}

}  // namespace testing
}  // namespace ventris
