// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "data/demo_corpus/phrases.h"
#include "data/error.h"
#include "data/io/hdf5_reader.h"
#include "data/prepare.h"
#include "data/text/tokenizer_training.h"
#include "tests/trainer/small_model.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/weights.h"

// Every byte of a checkpoint, a weights file and a corpus is flipped, and each is cut at every length.

namespace ventris {
namespace {

using testing::cpu_context;
using testing::SmallModel;

constexpr int64_t kUserBlockBytes = 512;  // of files of ours: all eight bits of each byte are flipped

/// A model as small as can be, so that most bytes of a file describe it and few are data.
TransformerConfig min_config() {
  TransformerConfig config = testing::small_config();
  config.decoder_layers = 1;
  config.d_model = 2;
  config.d_ff = 2;
  config.heads = 1;
  return config;
}

/// All that a corpus says.
std::vector<int64_t> everything_in(const std::string& file) {
  const data::Corpus corpus(file);
  std::vector<int64_t> found;
  for (const data::SentencePairs* pairs : {&corpus.train(), &corpus.valid()}) {
    for (const data::SentenceArray* side : {&pairs->source, &pairs->target}) {
      for (int64_t i = 0; i < side->size(); ++i) {
        const data::TokenView tokens = (*side)[i];
        found.insert(found.end(), tokens.begin(), tokens.end());
        found.push_back(-1);
      }
    }
  }
  const std::string& model = corpus.tokenizers().target().model();
  found.insert(found.end(), model.begin(), model.end());
  return found;
}

class DamagedFile : public testing::FolderTest {
 protected:
  /// Expects `read` to refuse the file with exit code 65 and its name.
  void expect_refusal(const std::function<void()>& read, const std::string& file, const char* damage,
                      int64_t at) {
    const auto check = [&](int code, const std::string& message) {
      if (code == static_cast<int>(ExitCode::kBadData) && message.find(file) != std::string::npos) return;
      ADD_FAILURE() << damage << " " << at << ": " << code << " " << message;
    };
    try {
      read();
      ADD_FAILURE() << damage << " " << at << " was not seen";
    } catch (const Error& error) {
      check(static_cast<int>(error.code()), error.what());
    } catch (const data::DataError& error) {
      check(static_cast<int>(error.kind()), error.what());
    }
  }

  /// Flips bits of every byte of the file, or of every `every`th past the user block.
  void flip(const std::string& file, const std::function<void()>& read, int64_t every) {
    const std::string whole = content(file);
    const int fd = ::open(file.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    const auto put = [&](int64_t at, char byte) { ASSERT_EQ(::pwrite(fd, &byte, 1, at), 1); };
    const auto size = static_cast<int64_t>(whole.size());
    for (int64_t at = 0; at < size && !HasFailure(); at += at < kUserBlockBytes ? 1 : every) {
      const char byte = whole[static_cast<size_t>(at)];
      const std::vector<int> masks = at < kUserBlockBytes ? std::vector<int>{1, 2, 4, 8, 16, 32, 64, 128}
                                                          : std::vector<int>{0x01, 0x80, 0xff};
      for (const int mask : masks) {
        put(at, static_cast<char>(byte ^ mask));
        expect_refusal(read, file, "a flip at byte", at);
      }
      put(at, byte);
    }
    ::close(fd);
    EXPECT_NO_THROW(read());
  }

  /// Cuts the file shorter and shorter.
  void cut(const std::string& file, const std::function<void()>& read, int64_t every) {
    for (auto length = static_cast<int64_t>(std::filesystem::file_size(file)) - 1;
         length >= 0 && !HasFailure(); length -= length < kUserBlockBytes ? 1 : every) {
      std::filesystem::resize_file(file, static_cast<uintmax_t>(length));
      expect_refusal(read, file, "a cut at byte", length);
    }
  }

  void damage(const std::string& file, const std::function<void()>& read) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const int64_t every = 97;
#else
    const bool all = std::getenv("VENTRIS_ALL_FAULTS") != nullptr;
    const int64_t every = all || std::filesystem::file_size(file) < 40000 ? 1 : 13;
#endif
    EXPECT_NO_THROW(read());
    flip(file, read, every);
    cut(file, read, every);
  }

  SmallModel model_{min_config()};
};

TEST_F(DamagedFile, ACheckpointIsRefusedWhereverItIsDamaged) {
  std::vector<float> m(static_cast<size_t>(model_.store.flat_size())), v = m;
  const auto size = static_cast<int64_t>(m.size());
  const OptimizerState optimizer = {.m = {m.data(), 1, size, size, DType::kF32},
                                    .v = {v.data(), 1, size, size, DType::kF32}};
  TrainingState state;
  const std::string file =
      save_checkpoint(cpu_context(), folder_.string(), state, model_.config, model_.store, optimizer,
                      {.target = "a tokenizer", .source = ""}, "a test");
  damage(file, [&] {
    load_checkpoint(cpu_context(), data::Hdf5Reader(file), model_.config, model_.store, optimizer, state);
  });
}

TEST_F(DamagedFile, AWeightsFileIsRefusedWhereverItIsDamaged) {
  data::TokenizerTraining training;
  training.vocab_size = model_.config.vocab_size;
  training.identity = true;
  std::vector<std::string> sentences;
  for (int64_t n = 0; n < 200; ++n) sentences.push_back(data::demo::english_cardinal(n * 37));
  const std::string file = path("weights.h5");
  save_weights(cpu_context(), file, model_.config, model_.store,
               {.target = data::train_tokenizer(sentences, training), .source = {}}, "");
  damage(file, [&] { load_model(cpu_context(), file, DType::kF32); });
}

TEST_F(DamagedFile, ACorpusIsRefusedWhereverItIsDamaged) {
  std::string source, target;
  for (int64_t n = 0; n < 40; ++n) {
    source += data::demo::english_cardinal(n) + "\n";
    target += data::demo::english_cardinal(n + 1) + "\n";
  }
  write(path("source"), source);
  write(path("target"), target);
  data::PrepareOptions options;
  options.corpora = {{.name = "train", .files = {{path("source"), path("target")}}}};
  options.tokenizer.vocab_size = 40;
  options.tokenizer.identity = true;
  options.output = path("corpus.h5");
  data::prepare(options);
  damage(options.output, [&] { data::verified_digest(options.output); });
  // What training reads is refused, or as it was.
  data::prepare(options);
  const std::vector<int64_t> sound = everything_in(options.output);
  const std::string whole = content(options.output);
  const int fd = ::open(options.output.c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  int refused = 0;
  for (size_t at = 0; at < whole.size() && !HasFailure(); at += 13) {
    const char byte = static_cast<char>(whole[at] ^ 0x10);
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
    try {
      EXPECT_TRUE(everything_in(options.output) == sound) << "a flip at byte " << at << " was not seen";
    } catch (const data::DataError& error) {
      EXPECT_EQ(error.kind(), data::ErrorKind::kBadData) << error.what();
      ++refused;
    }
    ASSERT_EQ(::pwrite(fd, &whole[at], 1, static_cast<off_t>(at)), 1);
  }
  ::close(fd);
  EXPECT_GT(refused, static_cast<int>(whole.size() / 13 / 2));
}

}  // namespace
}  // namespace ventris
