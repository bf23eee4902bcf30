// SPDX-License-Identifier: Apache-2.0
#include "trainer/exchange/marian_config.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/device/error.h"
#include "tests/trainer/small_model.h"
#include "trainer/exchange/marian_names.h"

namespace ventris {
namespace {

using testing::expect_failure;

const std::string kConfig =
    "dec-depth: 2\ndim-emb: 16\ndim-vocabs:\n  - 64\n  - 64\nenc-depth: 1\nlabel-smoothing: 0.1\n"
    "max-length: 50\ntied-embeddings-all: true\ntransformer-dim-ffn: 24\ntransformer-dropout: 0.25\n"
    "transformer-ffn-activation: relu\ntransformer-heads: 2\ntransformer-postprocess: dan\n"
    "transformer-preprocess: \"\"\ntype: transformer\n";

std::string replaced(const std::string& from, const std::string& to) {
  std::string text = kConfig;
  return text.replace(text.find(from), from.size(), to);
}

TEST(MarianConfig, GivesTheShapeOfTheModel) {
  const TransformerConfig config = marian_config(kConfig + std::string(1, '\0'), "m.npz");
  EXPECT_EQ(config.encoder_layers, 1);
  EXPECT_EQ(config.decoder_layers, 2);
  EXPECT_EQ(config.d_model, 16);
  EXPECT_EQ(config.d_ff, 24);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.vocab_size, 64);
  EXPECT_EQ(config.max_positions, 50);
  EXPECT_EQ(config.dropout, 0.25F);
  EXPECT_EQ(config.activation_dropout, 0.0F);
  EXPECT_EQ(marian_config(kConfig + "transformer-dropout-ffn: 0.125\n", "m.npz").activation_dropout, 0.125F);
  EXPECT_TRUE(config.marian_positions);
  EXPECT_TRUE(config.zero_start);
  EXPECT_EQ(config.activation, Activation::kRelu);
  EXPECT_EQ(marian_config(replaced("transformer-ffn-activation: relu\n", ""), "m.npz").activation,
            Activation::kSwish);
  EXPECT_EQ(config.layer_norm_epsilon, 1e-6F);
  EXPECT_FALSE(config.pre_norm);
  EXPECT_TRUE(config.output_bias);
  EXPECT_TRUE(marian_config(kConfig + "output-omit-bias: false\n", "m.npz").output_bias);
  EXPECT_FALSE(marian_config(kConfig + "output-omit-bias: true\n", "m.npz").output_bias);
  expect_failure<Error>([] { marian_config(kConfig + "output-omit-bias: maybe\n", "m.npz"); },
                        ExitCode::kBadData, {"output-omit-bias"});
}

TEST(MarianConfig, GivesTheTieAndBothVocabularies) {
  const auto read = [](const std::string& ties, const std::string& sizes) {
    std::string text = replaced("tied-embeddings-all: true\n", ties);
    return marian_config(text.replace(text.find("  - 64\n  - 64"), 13, sizes), "m.npz");
  };
  const std::string of_decoder = "tied-embeddings: true\ntied-embeddings-all: false\n";
  EXPECT_EQ(read("tied-embeddings-all: true\n", "  - 64\n  - 64").source_vocab_size, 0);
  for (const char* all :
       {"tied-embeddings-all: true\n", "tied-embeddings: true\ntied-embeddings-src: true\n"}) {
    EXPECT_EQ(read(all, "  - 64\n  - 64").tie, Tie::kAll) << all;
  }
  const TransformerConfig config = read(of_decoder, "  - 48\n  - 64");
  EXPECT_EQ(config.tie, Tie::kDecoder);
  EXPECT_EQ(config.source_vocab_size, 48);
  EXPECT_EQ(config.vocab_size, 64);
  EXPECT_EQ(read("tied-embeddings: false\n", "  - 64\n  - 64").tie, Tie::kNone);
  EXPECT_EQ(read("", "  - 64\n  - 64").source_vocab_size, 64);
}

TEST(MarianConfig, OfWhatOurModelIsNotIsRefused) {
  const auto refuse = [](const std::string& yaml, ExitCode code, const std::vector<std::string>& says) {
    expect_failure<Error>([&] { marian_config(yaml, "m.npz"); }, code, says);
  };
  refuse(replaced("relu", "gelu"), ExitCode::kBadData, {"m.npz", "transformer-ffn-activation", "gelu"});
  for (const char* line : {"transformer-no-bias: true", "transformer-attention-mask: alibi",
                           "transformer-decoder-ffn-depth: 3", "transformer-decoder-dim-ffn: 32",
                           "transformer-tied-layers:\n  - 1\n  - 1", "transformer-pool: true"}) {
    const std::string key(line, std::string_view(line).find(':'));
    refuse(kConfig + line + "\n", ExitCode::kBadData, {"m.npz", key});
  }
  refuse(replaced("tied-embeddings-all: true", "tied-embeddings-src: true"), ExitCode::kBadData,
         {"m.npz", "tied-embeddings-src", "tied-embeddings-all"});
  refuse(replaced("tied-embeddings-all: true", "tied-embeddings-all: yes"), ExitCode::kBadData, {"yes"});
  refuse(kConfig + "transformer-disable-position-embeddings: true\n", ExitCode::kBadData,
         {"transformer-disable-position-embeddings"});
  refuse(replaced("dan", "da"), ExitCode::kBadData, {"transformer-postprocess"});
  refuse(replaced("type: transformer", "type: s2s"), ExitCode::kBadData, {"s2s"});
  refuse(replaced("dim-emb: 16", "dim-emb: sixteen"), ExitCode::kBadData, {"dim-emb", "sixteen"});
  refuse(replaced("  - 64\n  - 64", "  - 64\n  - 65"), ExitCode::kBadData, {"dim-vocabs"});
  for (const char* sizes : {"", "  - 64", "  - 64\n  - x", "  - 64\n  - 64\n  - 64"}) {
    std::string text = replaced("  - 64\n  - 64", sizes);
    text.replace(text.find("tied-embeddings-all"), std::string("tied-embeddings-all").size(),
                 "tied-embeddings");
    refuse(text, ExitCode::kBadData, {"dim-vocabs", "two numbers"});
  }
  refuse(replaced("enc-depth: 1\n", ""), ExitCode::kBadConfiguration, {"encoder-layers"});
  refuse("", ExitCode::kBadData, {"type"});
  refuse("[", ExitCode::kBadData, {"m.npz:1"});
  refuse("type: transformer\nlayers: {}\n", ExitCode::kBadData, {"m.npz:2"});
  refuse("a: &x [1, 2]\nb: [*x, *x]\n", ExitCode::kBadData, {"m.npz:2"});
  refuse(kConfig + std::string(1 << 16, '\n'), ExitCode::kBadData, {"m.npz", "bytes of YAML"});
}

TEST(MarianConfig, PreNormOfVersionsThatNormalizedOtherwiseIsRefused) {
  const std::string pre_norm =
      "transformer-preprocess: n\ntransformer-postprocess: da\ntransformer-postprocess-top: n\n";
  for (const char* version : {"v1.9.0 ba91b39 2020-02-10", "v1.10.28", "0.9.1"}) {
    const std::string line = "version: " + std::string(version) + "\n";
    expect_failure<Error>([&] { marian_config(kConfig + pre_norm + line, "m.npz"); }, ExitCode::kBadData,
                          {"m.npz", version, "pre-norm", "1.11.0"});
    EXPECT_FALSE(marian_config(kConfig + line, "m.npz").pre_norm) << version;
  }
  for (const char* line : {"", "version: v1.11.0\n", "version: v1.12.42 b7be0e964 2025-05-24\n",
                           "version: v2.0.0\n", "version: unknown\n"}) {
    EXPECT_TRUE(marian_config(kConfig + pre_norm + line, "m.npz").pre_norm) << line;
  }
}

/// Finds tokens as a tokenizer does.
auto find_in(std::vector<std::string> tokens) {
  return [tokens = std::move(tokens)](std::string_view token) {
    const auto found = std::find(tokens.begin(), tokens.end(), token);
    return found == tokens.end() ? -1 : static_cast<int32_t>(found - tokens.begin());
  };
}

TEST(MarianVocabulary, ReadsQuotedAndPlainTokens) {
  const auto find = find_in({":", "it's", "\xC2\x85▁😀", "</s>", "a\"b\\", "<unk>"});
  EXPECT_EQ(marian_token_ids("</s>: 0\n\"<unk>\": 1\n'it''s': 2\n\"a\\\"b\\\\\": 3\n"
                             "\"\\x85\\u2581\\U0001F600\": 4\n\":\": 5\n",
                             "v.yml", 6, find),
            (std::vector<int32_t>{5, 2, 4, 0, 3, 1}));
  EXPECT_EQ(marian_token_ids("\uFEFFa: 1\nb: 0\n", "v.yml", 2, find_in({"a", "b"})),
            (std::vector<int32_t>{1, 0}));
}

TEST(MarianVocabulary, OfAnotherFormIsRefusedByLine) {
  const auto refuse = [](const std::string& yaml, const std::vector<std::string>& says) {
    expect_failure<Error>(
        [&] {
          marian_token_ids(yaml, "v.yml", 5, find_in({"a", "b", "c", "d", "e"}));
        },
        ExitCode::kBadData, says);
  };
  refuse("a: 0\nb\n", {"v.yml:2", "no id"});
  refuse("a: 0\nb:\n  c: 1\n", {"v.yml:3", "expected are lines of YAML"});
  refuse("- a\n", {"v.yml:1", "expected are lines of YAML"});
  refuse("a: &x 0\nb: *x\n", {"v.yml:2", "expected are lines of YAML"});
  refuse("a: [0, *x]\n", {"v.yml:1"});
  refuse("a: " + std::string(1 << 14, '['), {"v.yml:1"});
  refuse("a: 0\n" + std::string(1 << 16, ' '), {"65541 bytes of YAML", "at most 33408"});
  refuse("a: 0\nb: x\n", {"v.yml:2", "no id"});
  refuse("a: 0\nb: 5\n", {"v.yml:2", "beyond"});
  refuse("a: 0\nb: -1\n", {"v.yml:2", "beyond"});
  refuse("a: 0\nb: 0\n", {"v.yml:2", "again"});
  refuse("a: 0\na: 1\n", {"v.yml:2", "again"});
  refuse("a: 0\nf: 1\n", {"v.yml:2", "'f' is not in the SentencePiece model"});
  refuse("\"a: 0\n", {"v.yml:"});
  refuse("\"\\q\": 0\n", {"v.yml:1"});
  refuse("\"\\x4\": 0\n", {"v.yml:1"});
  refuse("a: 0\nb: 1\nc: 2\nd: 3\n", {"v.yml: ", "4 tokens", "has 5"});
  refuse("", {"v.yml: ", "0 tokens"});
}

TEST(MarianNames, AreThoseOfMarian) {
  EXPECT_EQ(marian_name("embedding", false), "Wemb");
  EXPECT_EQ(marian_name("source_embedding", false), "encoder_Wemb");
  EXPECT_EQ(marian_name("target_embedding", false), "decoder_Wemb");
  EXPECT_EQ(marian_name("output/weight", false), "decoder_ff_logit_out_Wt");
  EXPECT_EQ(marian_name("encoder/layers/0/self_attention/query/weight", false), "encoder_l1_self_Wq");
  EXPECT_EQ(marian_name("decoder/layers/11/cross_attention/output/bias", false), "decoder_l12_context_bo");
  EXPECT_EQ(marian_name("decoder/layers/0/feed_forward/outer/weight", false), "decoder_l1_ffn_W2");
  EXPECT_EQ(marian_name("encoder/layers/0/feed_forward/norm/gamma", false), "encoder_l1_ffn_ffn_ln_scale");
  EXPECT_EQ(marian_name("encoder/layers/0/self_attention/norm/beta", true), "encoder_l1_self_Wo_ln_bias_pre");
  EXPECT_EQ(marian_name("encoder/norm/gamma", true), "encoder_top_ln_scale");
}

}  // namespace
}  // namespace ventris
