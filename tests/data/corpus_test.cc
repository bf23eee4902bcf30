// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "data/files/element_type.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
#include "data/text/tokenizer_training.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// What a corpus file holds, for tests to spoil.
struct Content {
  std::string format = "ventris-corpus";
  int64_t version = 1;
  std::vector<int32_t> source = {3, 4, 5, 6};
  std::vector<int64_t> source_offsets = {0, 3, 4};
  std::vector<int32_t> target = {7, 8, 9};
  std::vector<int64_t> target_offsets = {0, 1, 3};
  std::vector<int64_t> valid_offsets = {0, 1};
  std::string reference = "größer";
  std::vector<int64_t> reference_offsets = {0, 8};
  std::string tokenizer;
  bool with_valid = true;
};

class CorpusTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    TokenizerTraining options;
    options.vocab_size = 16;
    content_.tokenizer = train_tokenizer({"abc abc", "cab cab"}, options);
    path_ = in_folder("corpus.h5");
  }

  void write() {
    Hdf5Writer writer(path_);
    writer.write_attribute("/", "format", content_.format);
    writer.write_attribute("/", "format_version", content_.version);
    put_array(writer, "/source/tokens", content_.source);
    put_array(writer, "/source/offsets", content_.source_offsets);
    put_array(writer, "/target/tokens", content_.target);
    put_array(writer, "/target/offsets", content_.target_offsets);
    if (content_.with_valid) {
      put_array(writer, "/valid/source/tokens", std::vector<int32_t>{3});
      put_array(writer, "/valid/source/offsets", content_.valid_offsets);
      put_array(writer, "/valid/target/tokens", std::vector<int32_t>{4});
      put_array(writer, "/valid/target/offsets", content_.valid_offsets);
    }
    put_array(writer, "/valid/reference_text",
              std::vector<uint8_t>(content_.reference.begin(), content_.reference.end()));
    put_array(writer, "/valid/reference_offsets", content_.reference_offsets);
    put_array(writer, "/tokenizer",
              std::vector<uint8_t>(content_.tokenizer.begin(), content_.tokenizer.end()));
    writer.commit();
  }

  std::string refused() {
    write();
    const std::string message = message_of(ErrorKind::kBadData, [&] { const Corpus corpus(path_); });
    EXPECT_TRUE(contains(message, path_)) << message;
    return message;
  }

  template <typename T>
  static void put_array(Hdf5Writer& writer, const std::string& name, const std::vector<T>& values) {
    const auto size = static_cast<int64_t>(values.size());
    writer.write(name, ElementTypeOf<T>::value, {&size, 1}, values.data());
  }

  Content content_;
  std::string path_;
};

TEST_F(CorpusTest, WhatAFileHoldsIsMapped) {
  write();
  const Corpus corpus(path_);
  ASSERT_EQ(corpus.train().size(), 2);
  EXPECT_EQ(corpus.train().source.length(0), 3);
  EXPECT_TRUE(std::ranges::equal(corpus.train().source[0], std::vector<int32_t>{3, 4, 5}));
  EXPECT_TRUE(std::ranges::equal(corpus.train().target[1], std::vector<int32_t>{8, 9}));
  EXPECT_EQ(corpus.train().source.total_tokens(), 4);
  EXPECT_EQ(corpus.max_length(), 3);
  EXPECT_EQ(corpus.valid_reference(0), "größer");
  EXPECT_EQ(corpus.tokenizers().target().vocab_size(), 16);
  EXPECT_EQ(corpus.digest(), Hdf5Reader(path_).digest());
}

TEST_F(CorpusTest, ATokenOutsideTheVocabularyIsNamed) {
  content_.source[3] = 16;
  EXPECT_TRUE(contains(refused(), "token 3 of /source/tokens is 16"));
  content_.source[3] = 15;
  content_.target[0] = -1;
  EXPECT_TRUE(contains(refused(), "token 0 of /target/tokens is -1"));
}

TEST_F(CorpusTest, OffsetsThatDoNotRiseAreRefused) {
  const std::vector<std::vector<int64_t>> bad = {{0, 5, 4}, {1, 3, 4}, {0, 3, 3}, {0, 3, 5}, {}, {0, -1, 4}};
  for (const std::vector<int64_t>& offsets : bad) {
    content_.source_offsets = offsets;
    EXPECT_TRUE(contains(refused(), "/source/offsets"));
  }
}

TEST_F(CorpusTest, SidesOfDifferentSizeAreRefused) {
  content_.source_offsets = {0, 1, 2, 4};
  EXPECT_TRUE(contains(refused(), "3 sentences"));
}

TEST_F(CorpusTest, ReferencesThatDoNotMatchAreRefused) {
  content_.reference_offsets = {0, 3, 8};
  refused();
  content_.reference_offsets = {0, 9};
  refused();
}

TEST_F(CorpusTest, OtherFormatsVersionsAndContentsAreRefused) {
  const Content good = content_;
  content_.format = "ventris-weights";
  EXPECT_TRUE(contains(refused(), "ventris prepare"));
  content_ = good;
  content_.version = 4;
  EXPECT_TRUE(contains(refused(), "a newer ventris"));
  content_.version = 0;
  EXPECT_TRUE(contains(refused(), "version 0"));
  content_ = good;
  content_.tokenizer = "no model";
  refused();
  content_ = good;
  content_.with_valid = false;
  EXPECT_TRUE(contains(refused(), "/valid/source/tokens"));
}

/// What a file of version 2 or 3 holds, for tests to spoil.
struct Content2 {
  int64_t version = 2;
  std::optional<std::string> source_tokenizer;
  std::vector<uint16_t> tokens = {3, 4, 5, 7, 6, 8, 9};
  std::vector<int64_t> offsets = {0, 3, 4, 5, 7};
  std::vector<float> weights = {0.5F, 2.0F};
  std::string parts =
      R"([{"name":"a","first":0,"pairs":2,"source_tokens":4,"target_tokens":3,"longest_source":3,)"
      R"("longest_target":2,"details":{}}])";
  std::string valid =
      R"({"name":"valid","first":0,"pairs":1,"source_tokens":1,"target_tokens":1,"longest_source":1,)"
      R"("longest_target":1,"details":{}})";
};

class Corpus2Test : public CorpusTest {
 protected:
  void write2() {
    Hdf5Writer writer(path_, 0, FileDigest::kTree);
    writer.write_attribute("/", "format", content_.format);
    writer.write_attribute("/", "format_version", content2_.version);
    writer.write_attribute("/", "parts", content2_.parts);
    writer.write_attribute("/", "valid", content2_.valid);
    put_array(writer, "/train/tokens", content2_.tokens);
    put_array(writer, "/train/offsets", content2_.offsets);
    put_array(writer, "/train/weights", content2_.weights);
    put_array(writer, "/valid/tokens", std::vector<uint16_t>{3, 4});
    put_array(writer, "/valid/offsets", std::vector<int64_t>{0, 1, 2});
    put_array(writer, "/valid/reference_text",
              std::vector<uint8_t>(content_.reference.begin(), content_.reference.end()));
    put_array(writer, "/valid/reference_offsets", content_.reference_offsets);
    put_array(writer, "/tokenizer",
              std::vector<uint8_t>(content_.tokenizer.begin(), content_.tokenizer.end()));
    if (content2_.source_tokenizer) {
      put_array(writer, "/source_tokenizer",
                std::vector<uint8_t>(content2_.source_tokenizer->begin(), content2_.source_tokenizer->end()));
    }
    writer.commit();
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
    write2();
    const std::string message = message_of(ErrorKind::kBadData, [&] { const Corpus corpus(path_); });
    EXPECT_TRUE(contains(message, path_) && contains(message, part)) << message;
    content2_ = {};
  }
  /// Of one that is opened, and refused where it is read and where all is checked.
  void refused_when_read(const std::string& part) {
    write2();
    const Corpus corpus(path_);
    const std::string message = message_of(ErrorKind::kBadData, [&] { read(corpus); });
    EXPECT_TRUE(contains(message, path_) && contains(message, part)) << message;
    message_of(ErrorKind::kBadData, [&] { corpus.check_all(2); });
    content2_ = {};
  }

  Content2 content2_;
};

TEST_F(Corpus2Test, ASoundFileIsReadAndPassesItsCheck) {
  write2();
  const Corpus corpus(path_);
  read(corpus);
  corpus.check_all(2);
  corpus.check_again();
  EXPECT_TRUE(std::ranges::equal(corpus.train().target[1], std::vector<int32_t>{8, 9}));
  EXPECT_EQ(corpus.train().weight(1), 2.0F);
  EXPECT_EQ(corpus.max_length(), 3);
}

TEST_F(Corpus2Test, WhatIsForgedIsRefusedWhereItIsRead) {
  content2_.tokens[6] = 16;
  refused_when_read("a token is 16, but the vocabulary has 16 tokens");
  for (const int64_t offset : {int64_t{-1}, int64_t{8}, int64_t{1} << 60, int64_t{6}}) {
    content2_.offsets[2] = offset;
    refused_when_read("offsets of sentence");
  }
  content2_.offsets[1] = 4;  // longer than the longest
  refused_when_read("offsets of sentence 0");
  content2_.weights[1] = -1.0F;
  refused_when_read("the weight of pair 1 is -1");
  content2_.weights[1] = std::numeric_limits<float>::quiet_NaN();
  refused_when_read("the weight of pair 1 is nan");
}

TEST_F(Corpus2Test, CountsThatAreNotThoseOfTheArraysAreRefused) {
  const auto changed = [&](const std::string& from, const std::string& to) {
    const size_t at = content2_.parts.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    content2_.parts.replace(at, from.size(), to);
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
  content2_.parts = "[]";
  refused_at_once("there is no corpus");
  content2_.valid = "7";
  refused_at_once("valid");
  content2_.weights.pop_back();
  refused_at_once("/train/weights has 1 elements, expected 2");
  // These are seen only where everything is read.
  changed(R"("longest_source":3)", R"("longest_source":4)");
  write2();
  EXPECT_TRUE(contains(message_of(ErrorKind::kBadData, [&] { Corpus(path_).check_all(1); }),
                       "at most 3 a sentence, but 4 and 4 are recorded"));
}

TEST_F(Corpus2Test, ForgedCountsNeitherOverflowNorLeadOutOfTheFile) {
  content2_.valid.replace(content2_.valid.find(R"("first":0)"), 9, R"("first":1)");
  refused_at_once("valid begins at pair 1, not 0");
  constexpr int64_t kLarge = (int64_t{1} << 61) - 1;
  const auto part = [](const char* name, int64_t first, int64_t pairs, int64_t source_tokens) {
    return fmt::format(R"({{"name":"{}","first":{},"pairs":{},"source_tokens":{},"target_tokens":0,)"
                       R"("longest_source":0,"longest_target":0,"details":{{}}}},)",
                       name, first, pairs, source_tokens);
  };
  const auto before_the_part = [&](const std::string& others) { content2_.parts.insert(1, others); };
  std::string wrapping;  // 8 kLarge + 12 is 4 in 64 bits, which the array has
  for (const char* const name : {"b", "c", "d", "e", "f", "g", "h", "i"})
    wrapping += part(name, 0, 0, kLarge);
  content2_.parts.replace(content2_.parts.find(R"("source_tokens":4)"), 17, R"("source_tokens":12)");
  before_the_part(wrapping);
  refused_at_once(fmt::format("source_tokens is {}", kLarge));
  before_the_part(part("b", 0, kLarge, 0) + part("c", kLarge, kLarge, 0));
  refused_at_once(fmt::format("pairs is {}", kLarge));
  content2_.parts.replace(content2_.parts.find(R"("longest_source":3)"), 18, R"("longest_source":5)");
  refused_at_once("longest_source is 5");
}

TEST_F(Corpus2Test, EachSideHasItsOwnVocabulary) {
  TokenizerTraining training;
  training.vocab_size = 12;
  const std::string of_sources = train_tokenizer({"abc abc", "cab cab"}, training);
  const auto begin = [&] {
    content2_.version = 3;
    content2_.source_tokenizer = of_sources;
  };
  begin();
  write2();
  read(Corpus(path_));
  content2_.tokens[0] = 12;  // of a source: a token of the target vocabulary alone
  refused_when_read("a token is 12, but the source vocabulary has 12 tokens");
  begin();
  content2_.tokens[3] = 16;
  refused_when_read("a token is 16, but the target vocabulary has 16 tokens");
  begin();
  content2_.source_tokenizer->resize(of_sources.size() / 2);
  refused_at_once("(sources): the tokenizer is not a sound SentencePiece model");
  begin();
  content2_.source_tokenizer.reset();
  refused_at_once("/source_tokenizer");
  begin();
  content2_.source_tokenizer = "";
  refused_at_once("/source_tokenizer is empty");
  content2_.version = 4;
  refused_at_once("version 4, and this program reads versions up to 3");
}

TEST_F(Corpus2Test, ALargeVocabularyTakesFourBytes) {
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

TEST_F(CorpusTest, AMissingFileIsTold) {
  message_of(ErrorKind::kMissingInput, [&] { const Corpus corpus(in_folder("absent.h5")); });
}

}  // namespace
}  // namespace ventris::data
