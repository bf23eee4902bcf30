// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/files/element_type.h"
#include "data/files/hdf5_writer.h"
#include "tests/trainer/training_fixture.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;
using testing::tiny_corpus;
using testing::tiny_run_options;
using testing::train_alone;

template <typename T>
void put(data::Hdf5Writer& writer, const std::string& name, const std::vector<T>& values) {
  const auto size = static_cast<int64_t>(values.size());
  writer.write(name, data::ElementTypeOf<T>::value, {&size, 1}, values.data());
}

/// A side as version 1 has it: its own arrays, of 4-byte ids.
void put_side(data::Hdf5Writer& writer, const std::string& group, const data::SentenceArray& side) {
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < side.size(); ++i) {
    const data::TokenView sentence = side[i];
    tokens.insert(tokens.end(), sentence.begin(), sentence.end());
    offsets.push_back(std::ssize(tokens));
  }
  put(writer, group + "/tokens", tokens);
  put(writer, group + "/offsets", offsets);
}

void write_version_1(const data::Corpus& corpus, const std::string& path) {
  data::Hdf5Writer writer(path);
  writer.write_attribute("/", "format", std::string("ventris-corpus"));
  writer.write_attribute("/", "format_version", int64_t{1});
  put_side(writer, "/source", corpus.train().source);
  put_side(writer, "/target", corpus.train().target);
  put_side(writer, "/valid/source", corpus.valid().source);
  put_side(writer, "/valid/target", corpus.valid().target);
  std::vector<uint8_t> text;
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; i < corpus.valid().size(); ++i) {
    const std::string line = corpus.valid_reference(i);
    text.insert(text.end(), line.begin(), line.end());
    offsets.push_back(std::ssize(text));
  }
  put(writer, "/valid/reference_text", text);
  put(writer, "/valid/reference_offsets", offsets);
  const std::string& model = corpus.tokenizers().target().model();
  put(writer, "/tokenizer", std::vector<uint8_t>(model.begin(), model.end()));
  writer.commit();
}

TEST(CorpusVersions, TrainingHasTheSameBitsFromBoth) {
  const TemporaryFolder folder;
  const std::string old = folder / "version_1.h5";
  write_version_1(data::Corpus(tiny_corpus()), old);
  ASSERT_EQ(data::Corpus(old).train().source.stored().format->bytes, 4);
  ASSERT_EQ(data::Corpus(tiny_corpus()).train().source.stored().format->bytes, 2);
  const TrainOptions options = tiny_run_options(tiny_corpus(), folder / "new");
  const std::string from_new = train_alone(options).last_checkpoint;
  const std::string from_old = train_alone(tiny_run_options(old, folder / "old")).last_checkpoint;
  const testing::LoadedState expected(from_old, options.model, testing::kTinyVocabulary);
  const testing::LoadedState found(from_new, options.model, testing::kTinyVocabulary);
  EXPECT_TRUE(found.values == expected.values);
  EXPECT_TRUE(found.v == expected.v);
}

}  // namespace
}  // namespace ventris
