#include "data/corpus.h"

#include <gtest/gtest.h>

#include <algorithm>

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
  EXPECT_EQ(corpus.tokenizer().vocab_size(), 16);
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
  content_.version = 3;
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

TEST_F(CorpusTest, AMissingFileIsTold) {
  message_of(ErrorKind::kMissingInput, [&] { const Corpus corpus(in_folder("absent.h5")); });
}

}  // namespace
}  // namespace ventris::data
