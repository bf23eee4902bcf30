// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/context.h"
#include "comm/communicator.h"
#include "data/prepare.h"
#include "model/parameters.h"
#include "model/transformer_parameters.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/optimizer.h"
#include "trainer/train.h"

namespace ventris::testing {

/// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ventris-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Sentences over a dozen words and their "translations": other words in the opposite order.
inline std::pair<std::string, std::string> tiny_pair(int number) {
  static const std::vector<std::string> kWords = {"one", "two", "six", "ten", "red",
                                                  "sun", "sea", "cat", "dog", "elk"};
  static const std::vector<std::string> kOther = {"eins", "zwei", "vier", "acht", "rot",
                                                  "tag",  "see",  "kuh",  "hund", "aal"};
  std::string source;
  std::string target;
  uint32_t state = static_cast<uint32_t>(number) * 2654435761U + 12345U;
  const int length = 2 + number % 5;
  for (int i = 0; i < length; ++i) {
    state = state * 1664525U + 1013904223U;
    const size_t word = (state >> 16) % kWords.size();
    source += (i > 0 ? " " : "") + kWords[word];
    target.insert(0, kOther[word] + (i > 0 ? " " : ""));
  }
  return {source, target};
}

/// Writes a corpus of `pairs` such pairs and 16 for validation into the folder and returns its path.
inline std::string make_tiny_corpus(const TemporaryFolder& folder, const std::string& name = "corpus.h5",
                                    int pairs = 200) {
  const auto write = [&](const std::string& file, int begin, int end, bool source) {
    std::ofstream out(folder / file);
    for (int i = begin; i < end; ++i) out << (source ? tiny_pair(i).first : tiny_pair(i).second) << '\n';
    return folder / file;
  };
  data::PrepareOptions options;
  options.corpora = {
      {.name = "train",
       .files = {{write("train.source", 0, pairs, true), write("train.target", 0, pairs, false)}}}};
  options.valid = {
      {write("valid.source", pairs, pairs + 16, true), write("valid.target", pairs, pairs + 16, false)}};
  options.tokenizer.vocab_size = 60;
  options.output = folder / name;
  data::prepare(options);
  return options.output;
}

/// The corpus of all tests of a program that do not change it.
inline const std::string& tiny_corpus() {
  static const TemporaryFolder folder;
  static const std::string path = make_tiny_corpus(folder);
  return path;
}

/// A run of a very small model on that corpus: about seven steps an epoch, two shards a batch, all kinds of
/// dropout.
inline TrainOptions tiny_run_options(const std::string& corpus, const std::string& model_dir) {
  TrainOptions options = preset_options("tiny");
  options.corpus = corpus;
  options.model_dir = model_dir;
  options.model.encoder_layers = 2;
  options.model.decoder_layers = 2;
  options.model.d_model = 16;
  options.model.d_ff = 32;
  options.model.heads = 2;
  options.model.max_positions = 128;
  options.model.dropout = 0.2F;
  options.model.attention_dropout = 0.1F;
  options.batch_source_tokens = 480;
  options.batch_target_tokens = 480;
  options.logical_shards = 2;
  options.precision = Precision::kF32;  // on CUDA too
  options.warmup_steps = 20;
  options.max_steps = 12;
  options.valid_every = 0;
  options.save_every = 0;
  options.log_every = 1;
  options.learning_rate_scale = 1.0;
  return options;
}

/// The parameters and moments in a checkpoint.
struct LoadedState {
  ParameterStore store;
  std::vector<float> values, m, v;
  TrainingState state;

  LoadedState(const std::string& path, TransformerConfig config, int64_t vocab_size) {
    config.vocab_size = vocab_size;
    declare_transformer(config, store);
    store.allocate(Device::kCpu, DType::kF32, /*gradients=*/false);
    const auto size = static_cast<size_t>(store.flat_size());
    m.resize(size);
    v.resize(size);
    const auto flat = [&](std::vector<float>& data) {
      return Tensor{data.data(), 1, store.flat_size(), store.flat_size(), DType::kF32};
    };
    Context context(ContextOptions{});
    load_checkpoint(context, data::Hdf5Reader(path), config, store, {.m = flat(m), .v = flat(v)}, state);
    const float* first = store.values().as<float>();
    values.assign(first, first + size);
  }
};
inline constexpr int64_t kTinyVocabulary = 60;

}  // namespace ventris::testing
