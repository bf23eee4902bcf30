// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/export.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "backend/device/error.h"
#include "data/error.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/model_arrays.h"
#include "trainer/exchange/import.h"
#include "trainer/exchange/probe.h"
#include "trainer/json_text.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::flat_values;
using testing::small_config;
using testing::small_tokenizer_models;
using testing::SmallModel;

/// 48 tokens of sources and 64 of targets.
data::TokenizerModels two_tokenizers() {
  std::vector<std::string> sentences;
  for (int64_t n = 0; n < 200; ++n) sentences.push_back(data::demo::german_cardinal(n * 37));
  data::TokenizerTraining options;
  options.vocab_size = 48;
  return {.target = testing::small_tokenizer_model(), .source = data::train_tokenizer(sentences, options)};
}

/// All three ties of one vocabulary, and both of two, for models of that configuration.
std::vector<TransformerConfig> ties_of(TransformerConfig config) {
  std::vector<TransformerConfig> all;
  for (const int64_t source_vocab : {0, 48}) {
    config.source_vocab_size = source_vocab;
    for (const Tie tie : {Tie::kAll, Tie::kDecoder, Tie::kNone}) {
      config.tie = tie;
      if (source_vocab == 0 || tie != Tie::kAll) all.push_back(config);
    }
  }
  return all;
}

class Export : public testing::FolderTest {
 protected:
  Context context_{ContextOptions{}};

  /// A model whose begin mark has a zero embedding.
  static TransformerConfig zero_begin(bool pre_norm = false) {
    TransformerConfig config = small_config(pre_norm);
    config.zero_token = 1;
    return config;
  }
  /// As Marian can express.
  static TransformerConfig marian_like(bool pre_norm = false) {
    TransformerConfig config = small_config(pre_norm);
    config.zero_start = true;
    config.marian_positions = true;
    config.activation = pre_norm ? Activation::kSwish : Activation::kRelu;  // one of each
    config.output_bias = pre_norm;
    config.layer_norm_epsilon = 1e-6F;
    config.max_positions = TransformerConfig().max_positions;  // the format has no longest sentence
    return config;
  }
  std::unique_ptr<LoadedModel> load(const TransformerConfig& config) {
    return load(config, config.source_vocab_size == 0 ? small_tokenizer_models() : two_tokenizers());
  }
  std::unique_ptr<LoadedModel> load(const TransformerConfig& config,
                                    const data::TokenizerModels& tokenizers) {
    SmallModel model(config, 5);
    clear_zero_token(context_, config,
                     model.store.logical_value(*model.store.find(name_of_target_embedding(config.tie))));
    if (const LogicalParameter* bias = model.store.find(kOutputBias)) {
      float* values = model.store.logical_value(*bias).row<float>(0);
      for (int64_t i = 0; i < bias->cols; ++i) values[i] = 0.01F * static_cast<float>(i);
    }
    save_weights(context_, path("trained.h5"), config, model.store, tokenizers, "a test");
    return load_model(context_, path("trained.h5"), DType::kF32);
  }
  std::vector<std::string> write(LoadedModel& model, ExportFormat format, const std::string& name) {
    return export_model(context_, model, format, path(name), "a test");
  }
};

TEST_F(Export, OfEveryTieReturnsBitForBitThroughImport) {
  std::vector<TransformerConfig> configs = ties_of(marian_like(/*pre_norm=*/true));
  configs.push_back(marian_like());
  for (const TransformerConfig& config : configs) {
    const std::string name =
        fmt::format("{}-{}{}", name_of(config.tie), config.source_vocab_size, config.pre_norm);
    const auto model = load(config);
    write(*model, ExportFormat::kHdf5, name + ".h5");
    write(*model, ExportFormat::kSafetensors, name + ".safetensors");
    write(*model, ExportFormat::kMarian, name);
    for (const std::string& file : {name + ".h5", name + ".safetensors", name + "/model.npz"}) {
      const auto back = import_model(context_, {.input = path(file)});
      EXPECT_EQ(flat_values(back->store), flat_values(model->store)) << file;
      EXPECT_EQ(back->config, model->config) << file;
      EXPECT_EQ(back->tokenizers->models(), model->tokenizers->models()) << file;
      EXPECT_EQ(tokenizer_models_of(path(file)), model->tokenizers->models()) << file;
    }
  }
}

TEST_F(Export, OfTwoVocabulariesHasAFileForEach) {
  TransformerConfig config = zero_begin();
  config.tie = Tie::kDecoder;
  config.source_vocab_size = 48;
  const auto model = load(config);
  const auto names_of = [&](LoadedModel& of, ExportFormat format) {
    std::vector<std::string> names;
    for (const std::string& file : write(of, format, name_of(format))) {
      names.push_back(std::filesystem::path(file).filename().string());
    }
    return names;
  };
  EXPECT_EQ(names_of(*model, ExportFormat::kCtranslate2),
            (std::vector<std::string>{"model.bin", "config.json", "source_vocabulary.json", "source.spm",
                                      "target_vocabulary.json", "target.spm", "probe.json"}));
  const std::vector<std::string> huggingface = names_of(*model, ExportFormat::kHuggingface);
  EXPECT_EQ(std::count(huggingface.begin(), huggingface.end(), "target_vocab.json"), 1);
  EXPECT_EQ(content(path("huggingface/source.spm")), model->tokenizers->source().model());
  EXPECT_EQ(content(path("huggingface/target.spm")), model->tokenizers->target().model());
  // CTranslate2 would read the vocabulary of both sides that an older model left.
  const auto shared = load(zero_begin());
  const auto refuse = [&](ExportFormat format, const std::string& file) {
    expect_failure<Error>([&] { write(*shared, format, name_of(format)); }, ExitCode::kCannotCreate,
                          {name_of(format), file, "another number of vocabularies"});
  };
  refuse(ExportFormat::kCtranslate2, "source_vocabulary.json");
  refuse(ExportFormat::kHuggingface, "target_vocab.json");
  for (const char* file : {"source_vocabulary.json", "target_vocabulary.json", "source.spm"})
    std::filesystem::remove(path(std::string("ctranslate2/") + file));
  refuse(ExportFormat::kCtranslate2, "target.spm");
  write(*shared, ExportFormat::kCtranslate2, "shared");
  expect_failure<Error>([&] { write(*model, ExportFormat::kCtranslate2, "shared"); }, ExitCode::kCannotCreate,
                        {"shared_vocabulary.json", "another number of vocabularies"});
}

TEST_F(Export, ImportOfMarianTakesTheIdsOfEachSide) {
  TransformerConfig config = marian_like(/*pre_norm=*/true);
  config.tie = Tie::kNone;
  config.source_vocab_size = 48;
  const auto model = load(config);
  write(*model, ExportFormat::kMarian, "marian");
  const auto exchange = [&](const char* name) {
    std::string tokens = content(path(name));
    tokens.replace(tokens.find(": 5\n"), 4, ": 7\n").replace(tokens.rfind(": 7\n"), 4, ": 5\n");
    testing::FolderTest::write(path(name), tokens);
  };
  exchange("marian/source.vocab.yml");
  const auto row = [](const LoadedModel& of, const char* name, int64_t token) {
    const auto block = of.store.logical_value(*of.store.find(name));
    return std::vector<float>(block.row<float>(token), block.row<float>(token) + block.cols);
  };
  const auto changed = import_model(context_, {.input = path("marian/model.npz")});
  EXPECT_EQ(row(*changed, kSourceEmbedding, 5), row(*model, kSourceEmbedding, 7));
  EXPECT_EQ(row(*changed, kSourceEmbedding, 7), row(*model, kSourceEmbedding, 5));
  EXPECT_EQ(row(*changed, kTargetEmbedding, 5), row(*model, kTargetEmbedding, 5));
  EXPECT_EQ(row(*changed, kOutputWeight, 7), row(*model, kOutputWeight, 7));
  exchange("marian/target.vocab.yml");
  const auto both = import_model(context_, {.input = path("marian/model.npz")});
  EXPECT_EQ(row(*both, kTargetEmbedding, 5), row(*model, kTargetEmbedding, 7));
  EXPECT_EQ(row(*both, kOutputWeight, 7), row(*model, kOutputWeight, 5));

  // Without the files beside the model, those that are given; and each only where it can be.
  std::filesystem::create_directory(path("elsewhere"));
  for (const char* name : {"source.spm", "target.spm", "source.vocab.yml", "target.vocab.yml"}) {
    std::filesystem::rename(path(std::string("marian/") + name), path(std::string("elsewhere/") + name));
  }
  const ImportOptions given = {
      .input = path("marian/model.npz"),
      .source = {.vocabulary = path("elsewhere/source.vocab.yml"), .tokenizer = path("elsewhere/source.spm")},
      .target = {.vocabulary = path("elsewhere/target.vocab.yml"),
                 .tokenizer = path("elsewhere/target.spm")}};
  EXPECT_EQ(flat_values(import_model(context_, given)->store), flat_values(both->store));
  ImportOptions exchanged = given;
  std::swap(exchanged.source, exchanged.target);
  expect_failure<Error>([&] { import_model(context_, exchanged); }, ExitCode::kBadData, {"64", "48"});
  write(*load(marian_like()), ExportFormat::kMarian, "one");
  ImportOptions of_one = given;
  of_one.input = path("one/model.npz");
  expect_failure<Error>([&] { import_model(context_, of_one); }, ExitCode::kUsage, {"one vocabulary"});
}

TEST_F(Export, OfVocabulariesWithOtherMarksIsRefusedWhereMarksAreShared) {
  TransformerConfig config = zero_begin();
  config.tie = Tie::kDecoder;
  config.source_vocab_size = 48;
  std::string source_model = two_tokenizers().source;
  const size_t unknown = source_model.find("<unk>");
  ASSERT_NE(unknown, std::string::npos);
  const auto model = load(config, {.target = testing::small_tokenizer_model(),
                                   .source = source_model.replace(unknown, 5, "<u!k>")});
  for (const ExportFormat format : {ExportFormat::kCtranslate2, ExportFormat::kHuggingface}) {
    expect_failure<Error>([&] { write(*model, format, "out"); }, ExitCode::kBadConfiguration,
                          {name_of(format), "unknown token", "<u!k>", "<unk>", "hdf5"});
  }
  write(*model, ExportFormat::kSafetensors, "w.safetensors");
}

TEST_F(Export, OfWhatMarianDoesNotHaveReturnsThroughSafetensors) {
  TransformerConfig with_bias = small_config();
  with_bias.output_bias = with_bias.zero_start = true;
  with_bias.activation = Activation::kGelu;
  for (const TransformerConfig& config :
       {with_bias, small_config(/*pre_norm=*/true, /*learned_positions=*/true)}) {
    const auto model = load(config);
    write(*model, ExportFormat::kSafetensors, "w.safetensors");
    const auto back = import_model(context_, {.input = path("w.safetensors")});
    EXPECT_EQ(flat_values(back->store), flat_values(model->store));
    EXPECT_EQ(back->config, config);
  }
}

TEST_F(Export, OfWhatAFormatCannotExpressIsRefused) {
  const auto refuse = [&](const TransformerConfig& config, ExportFormat format,
                          const std::vector<std::string>& says) {
    const auto model = load(config);
    expect_failure<Error>([&] { write(*model, format, "out"); }, ExitCode::kBadConfiguration, says);
  };
  refuse(small_config(true), ExportFormat::kHuggingface,
         {"huggingface", "pre-norm", "Formats: hdf5, safetensors, ctranslate2"});
  refuse(small_config(false, true), ExportFormat::kHuggingface, {"learned positions"});
  refuse(zero_begin(), ExportFormat::kMarian, {"marian", "sinusoids", "--positions marian"});
  refuse(marian_like(), ExportFormat::kHuggingface, {"Marian's sinusoids", "--positions paper"});
  TransformerConfig begin = marian_like();
  begin.zero_start = false;
  refuse(begin, ExportFormat::kMarian, {"marian", "--begin-embedding none"});
  TransformerConfig gelu = marian_like();
  gelu.activation = Activation::kGelu;
  refuse(gelu, ExportFormat::kMarian, {"marian", "exact GELU", "--activation relu or swish"});
  refuse(marian_like(), ExportFormat::kHuggingface, {"huggingface", "--positions paper"});
  TransformerConfig learned = zero_begin();
  learned.learned_positions = true;
  refuse(learned, ExportFormat::kMarian, {"learned positions"});
  TransformerConfig epsilon = marian_like();
  epsilon.layer_norm_epsilon = 1e-5F;
  refuse(epsilon, ExportFormat::kMarian, {"--layer-norm-epsilon 1e-06"});
  epsilon = zero_begin();
  epsilon.layer_norm_epsilon = 1e-6F;
  refuse(epsilon, ExportFormat::kHuggingface, {"--layer-norm-epsilon 1e-05"});
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(Export, BringsProbesThatTheModelGivesAndAnotherDoesNot) {
  const auto model = load(zero_begin());
  const std::vector<Probe> probes = make_probes(context_, *model);
  ASSERT_EQ(probes.size(), 3U);
  for (const Probe& probe : probes) {
    EXPECT_FALSE(probe.source.empty());
    EXPECT_EQ(probe.log_probabilities.size(), probe.target.size() + 1);
  }
  EXPECT_EQ(probes_from_json(to_json(probes), "a test"), probes);
  EXPECT_LT(check_probes(context_, *model, probes, 1e-5), 1e-5);
  write(*model, ExportFormat::kSafetensors, "w.safetensors");
  write(*model, ExportFormat::kHdf5, "w.h5");
  for (const char* name : {"w.safetensors", "w.h5"}) {
    EXPECT_EQ(load_model(context_, path(name), DType::kF32)->probes, to_json(probes)) << name;
  }
  model->store.values().as<float>()[3 * 16] += 0.5F;
  expect_failure<Error>([&] { check_probes(context_, *model, probes, 1e-3); }, ExitCode::kBadData,
                        {"probe", "was expected"});
}

TEST_F(Export, ProbesOfGreatLogitsAreThoseOfTheModelAsF32HoldsThem) {
  const auto model = load(zero_begin());
  const std::span<float> values(model->store.values().as<float>(),
                                static_cast<size_t>(model->store.flat_size()));
  for (float& value : values) value *= 3e5F;
  const std::vector<Probe> probes = make_probes(context_, *model);
  float greatest = 0.0F;
  for (const float value : probes[0].log_probabilities) greatest = std::max(greatest, std::abs(value));
  ASSERT_GT(greatest, 1e5F);
  check_probes(context_, *model, probes, 1e-6);
}

TEST_F(Export, ProbesOfAnotherFormAreRefused) {
  const auto model = load(zero_begin());
  const std::vector<Probe> probes = make_probes(context_, *model);
  for (const char* text :
       {"", "[]", "{}", R"({"probes":7})", R"({"probes":[7]})", R"({"probes":[{}]})",
        R"({"probes":[{"source":[3],"target":[],"log_probabilities":[],"top_words":[],"top_logits":[]}]})"}) {
    expect_failure<Error>([&] { probes_from_json(text, "a test"); }, ExitCode::kBadData, {"a test"});
  }
  const std::string too_long = to_json(probes) + std::string(kMaxJsonBytes, ' ');
  expect_failure<Error>([&] { probes_from_json(too_long, "a test"); }, ExitCode::kBadData, {"a test"});
  std::vector<Probe> beyond = probes;
  beyond[0].target[0] = 64;
  expect_failure<Error>([&] { check_probes(context_, *model, beyond, 1e-3); }, ExitCode::kBadData,
                        {"vocabulary"});
  beyond = probes;
  beyond[0].source.resize(10, 3);
  expect_failure<Error>([&] { check_probes(context_, *model, beyond, 1e-3); }, ExitCode::kBadData,
                        {"positions"});
}

TEST_F(Export, ImportOfMarianTakesIdsOfTheVocabularyOrOfTheSentencePieceModel) {
  const auto model = load(marian_like(/*pre_norm=*/true));
  write(*model, ExportFormat::kMarian, "marian");
  const ImportOptions options = {.input = path("marian/model.npz")};
  const std::vector<float> expected = flat_values(model->store);
  std::string tokens = content(path("marian/vocab.yml"));
  std::filesystem::remove(path("marian/vocab.yml"));
  EXPECT_EQ(flat_values(import_model(context_, options)->store), expected);

  // The begin mark and the fourth token change places: the decoder begins with zeros all the same.
  tokens.replace(tokens.find(": 1\n"), 4, ": 3\n").replace(tokens.rfind(": 3\n"), 4, ": 1\n");
  testing::FolderTest::write(path("marian/vocab.yml"), tokens);
  const auto exchanged = import_model(context_, options);
  EXPECT_TRUE(exchanged->config.zero_start);
  const auto row = [](const LoadedModel& of, const char* name, int64_t token, int64_t width) {
    const auto block = of.store.logical_value(*of.store.find(name));
    const float* first = block.rows == 1 ? block.row<float>(0) + token : block.row<float>(token);
    return std::vector<float>(first, first + width);
  };
  for (const auto& [ours, theirs] : {std::pair{1, 3}, {3, 1}, {4, 4}}) {
    EXPECT_EQ(row(*exchanged, "embedding", ours, 16), row(*model, "embedding", theirs, 16));
    EXPECT_EQ(row(*exchanged, kOutputBias, ours, 1), row(*model, kOutputBias, theirs, 1));
  }
}

}  // namespace
}  // namespace ventris
