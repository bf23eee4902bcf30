// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "data/io/element_type.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// What a corpus file holds, for tests to spoil.
struct Content {
  std::string format = "ventris-corpus";
  int64_t version = 2;
  std::optional<std::string> source_tokenizer;
  std::vector<uint16_t> tokens = {3, 4, 5, 7, 6, 8, 9};
  std::vector<int64_t> offsets = {0, 3, 4, 5, 7};
  std::vector<float> weights = {0.5F, 2.0F};
  std::string reference = "größer";
  std::vector<int64_t> reference_offsets = {0, 8};
  bool with_valid = true;
  std::string parts =
      R"([{"name":"a","first":0,"pairs":2,"source_tokens":4,"target_tokens":3,"longest_source":3,)"
      R"("longest_target":2,"details":{}}])";
  std::string valid =
      R"({"name":"valid","first":0,"pairs":1,"source_tokens":1,"target_tokens":1,"longest_source":1,)"
      R"("longest_target":1,"details":{}})";
};

class CorpusTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    TokenizerTraining options;
    options.vocab_size = 16;
    tokenizer_ = train_tokenizer({"abc abc", "cab cab"}, options);
    path_ = in_folder("corpus.h5");
  }

  void write() {
    Hdf5Writer writer(path_, 0, FileDigest::kTree);
    writer.write_attribute("/", "format", content_.format);
    writer.write_attribute("/", "format_version", content_.version);
    writer.write_attribute("/", "parts", content_.parts);
    writer.write_attribute("/", "valid", content_.valid);
    put_array(writer, "/train/tokens", content_.tokens);
    put_array(writer, "/train/offsets", content_.offsets);
    put_array(writer, "/train/weights", content_.weights);
    if (content_.with_valid) {
      put_array(writer, "/valid/tokens", std::vector<uint16_t>{3, 4});
      put_array(writer, "/valid/offsets", std::vector<int64_t>{0, 1, 2});
    }
    put_array(writer, "/valid/reference_text",
              std::vector<uint8_t>(content_.reference.begin(), content_.reference.end()));
    put_array(writer, "/valid/reference_offsets", content_.reference_offsets);
    put_array(writer, "/tokenizer", std::vector<uint8_t>(tokenizer_.begin(), tokenizer_.end()));
    if (content_.source_tokenizer) {
      put_array(writer, "/source_tokenizer",
                std::vector<uint8_t>(content_.source_tokenizer->begin(), content_.source_tokenizer->end()));
    }
    writer.commit();
  }

  template <typename T>
  static void put_array(Hdf5Writer& writer, const std::string& name, const std::vector<T>& values) {
    const auto size = static_cast<int64_t>(values.size());
    writer.write(name, ElementTypeOf<T>::value, {&size, 1}, values.data());
  }

  /// Reads all pairs as training does.
  static void read(const Corpus& corpus) {
    int64_t sum = 0;
    for (int64_t i = 0; i < corpus.train().size(); ++i) {
      for (const int32_t id : corpus.train().source[i]) sum += id;
      for (const int32_t id : corpus.train().target[i]) sum += id;
      EXPECT_GE(corpus.train().weight(i), 0.0F);
    }
    EXPECT_GT(sum, 0);
  }

  /// Of a file that cannot be opened.
  void refused_at_once(const std::string& part) {
    write();
    const std::string message = message_of(ErrorKind::kBadData, [&] { const Corpus corpus(path_); });
    EXPECT_TRUE(contains(message, path_) && contains(message, part)) << message;
    content_ = {};
  }
  /// Of one that is opened, and refused where it is read and where all is checked.
  void refused_when_read(const std::string& part) {
    write();
    const Corpus corpus(path_);
    const std::string message = message_of(ErrorKind::kBadData, [&] { read(corpus); });
    EXPECT_TRUE(contains(message, path_) && contains(message, part)) << message;
    message_of(ErrorKind::kBadData, [&] { corpus.check_all(2); });
    content_ = {};
  }

  Content content_;
  std::string tokenizer_;
  std::string path_;
};

TEST_F(CorpusTest, ASoundFileIsReadAndPassesItsCheck) {
  write();
  const Corpus corpus(path_);
  read(corpus);
  corpus.check_all(2);
  ASSERT_EQ(corpus.train().size(), 2);
  EXPECT_EQ(corpus.train().source.length(0), 3);
  EXPECT_TRUE(std::ranges::equal(corpus.train().source[0], std::vector<int32_t>{3, 4, 5}));
  EXPECT_TRUE(std::ranges::equal(corpus.train().target[1], std::vector<int32_t>{8, 9}));
  EXPECT_EQ(corpus.train().source.total_tokens(), 4);
  EXPECT_EQ(corpus.train().weight(1), 2.0F);
  EXPECT_EQ(corpus.max_length(), 3);
  EXPECT_EQ(corpus.valid_reference(0), "größer");
  EXPECT_EQ(corpus.tokenizers().target().vocab_size(), 16);
  EXPECT_EQ(corpus.digest(), Hdf5Reader(path_).digest());
}

TEST_F(CorpusTest, OtherFormatsVersionsAndContentsAreRefused) {
  content_.format = "ventris-weights";
  refused_at_once("ventris prepare");
  content_.version = 4;
  refused_at_once("a newer ventris");
  for (const int64_t earlier : {0, 1}) {
    content_.version = earlier;
    refused_at_once(fmt::format("a corpus file of format version {}", earlier));
  }
  content_.with_valid = false;
  refused_at_once("/valid/offsets");
  content_.reference_offsets = {0, 3, 8};
  refused_at_once("/valid/reference_offsets has 3 elements, expected 2");
  content_.reference_offsets = {0, 9};
  write();
  message_of(ErrorKind::kBadData, [&] { static_cast<void>(Corpus(path_).valid_reference(0)); });
  const std::string sound = tokenizer_;
  tokenizer_ = "no model";
  refused_at_once("the tokenizer");
  tokenizer_ = sound;
}

TEST_F(CorpusTest, WhatIsForgedIsRefusedWhereItIsRead) {
  content_.tokens[6] = 16;
  refused_when_read("a token is 16, but the vocabulary has 16 tokens");
  for (const int64_t offset : {int64_t{-1}, int64_t{8}, int64_t{1} << 60, int64_t{6}}) {
    content_.offsets[2] = offset;
    refused_when_read("offsets of sentence");
  }
  content_.offsets[1] = 4;  // longer than the longest
  refused_when_read("offsets of sentence 0");
  content_.weights[1] = -1.0F;
  refused_when_read("the weight of pair 1 is -1");
  content_.weights[1] = std::numeric_limits<float>::quiet_NaN();
  refused_when_read("the weight of pair 1 is nan");
}

TEST_F(CorpusTest, CountsThatAreNotThoseOfTheArraysAreRefused) {
  const auto changed = [&](const std::string& from, const std::string& to) {
    const size_t at = content_.parts.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    content_.parts.replace(at, from.size(), to);
  };
  changed(R"("pairs":2)", R"("pairs":3)");
  refused_at_once("3 pairs");
  changed(R"("source_tokens":4)", R"("source_tokens":5)");
  refused_at_once("5 and 3 tokens");
  changed(R"("first":0)", R"("first":1)");
  refused_at_once("parts");
  changed(R"("pairs":2)", R"("pairs":-2)");
  refused_at_once("pairs is -2");
  changed(R"("longest_source":3)", R"("longest_source":3e20)");
  refused_at_once("parts");
  changed(R"([{)", R"({)");
  refused_at_once("parts");
  content_.parts = "[]";
  refused_at_once("its list is empty");
  content_.valid = "7";
  refused_at_once("valid");
  content_.weights.pop_back();
  refused_at_once("/train/weights has 1 elements, expected 2");
  // These are seen only where everything is read.
  changed(R"("longest_source":3)", R"("longest_source":4)");
  write();
  EXPECT_TRUE(contains(message_of(ErrorKind::kBadData, [&] { Corpus(path_).check_all(1); }),
                       "at most 3 a sentence, but 4 and 4 are recorded"));
}

TEST_F(CorpusTest, ForgedCountsNeitherOverflowNorLeadOutOfTheFile) {
  content_.valid.replace(content_.valid.find(R"("first":0)"), 9, R"("first":1)");
  refused_at_once("valid begins at pair 1, not 0");
  constexpr int64_t kLarge = (int64_t{1} << 61) - 1;
  const auto part = [](const char* name, int64_t first, int64_t pairs, int64_t source_tokens) {
    return fmt::format(R"({{"name":"{}","first":{},"pairs":{},"source_tokens":{},"target_tokens":0,)"
                       R"("longest_source":0,"longest_target":0,"details":{{}}}},)",
                       name, first, pairs, source_tokens);
  };
  const auto before_the_part = [&](const std::string& others) { content_.parts.insert(1, others); };
  std::string wrapping;  // 8 kLarge + 12 is 4 in 64 bits, which the array has
  for (const char* const name : {"b", "c", "d", "e", "f", "g", "h", "i"})
    wrapping += part(name, 0, 0, kLarge);
  content_.parts.replace(content_.parts.find(R"("source_tokens":4)"), 17, R"("source_tokens":12)");
  before_the_part(wrapping);
  refused_at_once(fmt::format("source_tokens is {}", kLarge));
  before_the_part(part("b", 0, kLarge, 0) + part("c", kLarge, kLarge, 0));
  refused_at_once(fmt::format("pairs is {}", kLarge));
  content_.parts.replace(content_.parts.find(R"("longest_source":3)"), 18, R"("longest_source":5)");
  refused_at_once("longest_source is 5");
}

TEST_F(CorpusTest, EachSideHasItsOwnVocabulary) {
  TokenizerTraining training;
  training.vocab_size = 12;
  const std::string of_sources = train_tokenizer({"abc abc", "cab cab"}, training);
  const auto begin = [&] {
    content_.version = 3;
    content_.source_tokenizer = of_sources;
  };
  begin();
  write();
  read(Corpus(path_));
  content_.tokens[0] = 12;  // of a source: a token of the target vocabulary alone
  refused_when_read("a token is 12, but the source vocabulary has 12 tokens");
  begin();
  content_.tokens[3] = 16;
  refused_when_read("a token is 16, but the target vocabulary has 16 tokens");
  begin();
  content_.source_tokenizer->resize(of_sources.size() / 2);
  refused_at_once("(sources): the tokenizer is not a sound SentencePiece model");
  begin();
  content_.source_tokenizer.reset();
  refused_at_once("/source_tokenizer");
  begin();
  content_.source_tokenizer = "";
  refused_at_once("/source_tokenizer is empty");
  content_.version = 4;
  refused_at_once("version 4, and this program reads versions up to 3");
}

TEST_F(CorpusTest, ALargeVocabularyTakesFourBytes) {
  const std::vector<int32_t> ids = {70000, 3, 65536};
  const std::vector<int64_t> offsets = {0, 1, 3};
  const TokenFormat format = {.bytes = 4, .vocab_size = 70001, .path = "large"};
  const SentenceArray array({.tokens = reinterpret_cast<const std::byte*>(ids.data()),
                             .token_count = 3,
                             .offsets = offsets.data(),
                             .count = 2,
                             .total = 3,
                             .longest = 2,
                             .format = &format});
  EXPECT_TRUE(std::ranges::equal(array[0], std::vector<int32_t>{70000}));
  EXPECT_TRUE(std::ranges::equal(array[1], std::vector<int32_t>{3, 65536}));
}

}  // namespace
}  // namespace ventris::data
