// SPDX-License-Identifier: Apache-2.0
#include "trainer/inference/translation.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/tiny_run.h"
#include "tests/trainer/small_model.h"
#include "trainer/files/weights.h"
#include "trainer/inference/scoring.h"
#include "trainer/inference/work_sharing.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

class TranslationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    TrainOptions options = testing::tiny_run_options(testing::make_tiny_corpus(*folder_), *folder_ / "run");
    options.model.max_positions = 40;
    options.max_steps = 30;
    Context context({.threads = 1});
    const auto self = make_self_communicator();
    checkpoint_ = new std::string(train(context, *self, options, "test").last_checkpoint);
  }
  static void TearDownTestSuite() {
    delete checkpoint_;
    delete folder_;
  }

  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines,
                                        const BeamSearchOptions& options,
                                        const std::vector<std::string>& prefixes = {}) {
    return Translator(context_, *self_, models_, options).translate(lines, prefixes);
  }

  static TemporaryFolder* folder_;
  static std::string* checkpoint_;
  Context context_{{.threads = 1}};
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  ModelSet models_{context_, {*checkpoint_}, Packing::kF32};
};
TemporaryFolder* TranslationTest::folder_ = nullptr;
std::string* TranslationTest::checkpoint_ = nullptr;

std::vector<std::string> some_lines(int count) {
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) lines.push_back(testing::tiny_pair(i * 7).first);
  return lines;
}

const std::string& best(const TranslatedLine& line) {
  return line.translations.at(0).text;
}

TEST_F(TranslationTest, ALineHasTheSameTranslationAloneAndAmongOthersInAnyOrder) {
  const std::vector<std::string> lines = some_lines(300);  // several chunks
  const auto together = translate(lines, {});
  ASSERT_EQ(together.size(), lines.size());
  std::vector<std::string> backwards(lines.rbegin(), lines.rend());
  const auto reversed = translate(backwards, {});
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(together[i].translations.size(), 1U);
    EXPECT_EQ(best(reversed[lines.size() - 1 - i]), best(together[i]));
  }
  for (size_t i = 0; i < lines.size(); i += 50)
    EXPECT_EQ(best(translate({lines[i]}, {})[0]), best(together[i]));
}

TEST_F(TranslationTest, NBestComesBestFirst) {
  const auto found = translate(some_lines(5), {.beam_size = 4, .n_best = 3});
  for (const TranslatedLine& line : found) {
    const std::vector<Translation>& hypotheses = line.translations;
    ASSERT_EQ(hypotheses.size(), 3U);
    EXPECT_GE(hypotheses[0].score, hypotheses[1].score);
    EXPECT_GE(hypotheses[1].score, hypotheses[2].score);
    EXPECT_LT(hypotheses[0].log_probability, 0.0);
  }
}

TEST_F(TranslationTest, EmptyLinesGiveEmptyTranslations) {
  const auto found = translate({"", "red sun", "   "}, {});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(best(found[0]), "");
  EXPECT_EQ(best(found[2]), "");
  EXPECT_TRUE(translate({}, {}).empty());
}

TEST_F(TranslationTest, LinesThatAreTooLongAreCutAndTold) {
  std::string line;
  for (int i = 0; i < 100; ++i) line += "elk ";
  const auto found = translate({line, "one two"}, {.max_extra_length = 3}, {"one", line});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(models_.longest_sentence(), 39U);
  EXPECT_GE(found[0].source_tokens, 100U);
  EXPECT_EQ(found[0].source.size(), 39U);
  EXPECT_EQ(found[1].source_tokens, found[1].source.size());
  EXPECT_GE(found[1].prefix_tokens, 100U);
  EXPECT_EQ(found[1].translations.at(0).tokens.size(), 39U);
}

TEST_F(TranslationTest, TranslationsBeginWithTheirPrefixes) {
  const std::vector<std::string> lines = some_lines(4);
  const std::string prefix = testing::tiny_pair(3).second;
  const auto found = translate(lines, {.n_best = 3}, {"", prefix, "", prefix});
  const auto free = translate(lines, {.n_best = 3});
  for (size_t i = 0; i < lines.size(); ++i) {
    for (size_t n = 0; n < found[i].translations.size(); ++n) {
      const std::string& text = found[i].translations[n].text;
      if (i % 2 == 1) {
        EXPECT_EQ(text.rfind(prefix, 0), 0U) << text;
      } else {
        EXPECT_EQ(text, free[i].translations[n].text);
      }
    }
  }
}

TEST_F(TranslationTest, ModelsOfDifferentVocabulariesAreNoEnsemble) {
  const ModelSet twice(context_, {*checkpoint_, *checkpoint_}, Packing::kF32);
  EXPECT_EQ(twice.search_models().size(), 2U);
  const std::string other = *folder_ / "other.h5";
  const testing::SmallModel small(testing::small_config());
  save_weights(context_, other, small.config, small.store, testing::small_tokenizer_models(), "test");
  testing::expect_failure<Error>(
      [&] {
        ModelSet(context_, {*checkpoint_, other}, Packing::kF32);
      },
      ExitCode::kBadConfiguration, {"other.h5", "vocabulary", "64 tokens"});
}

TEST_F(TranslationTest, ScoresOfGivenTargetsAreThoseOfTheSearch) {
  const std::vector<std::string> lines = some_lines(60);
  const auto found = translate(lines, {.n_best = 2});
  std::vector<std::string> sources;
  std::vector<std::string> targets;
  std::vector<double> expected;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Translation& translation : found[i].translations) {
      // Some outputs are not what their text would be cut into.
      if (models_.tokenizers().target().encode(translation.text) != translation.tokens) continue;
      sources.push_back(lines[i]);
      targets.push_back(translation.text);
      expected.push_back(translation.log_probability);
    }
  }
  ASSERT_GT(expected.size(), 50U);
  const auto scored = score_text(context_, *self_, models_, sources, targets, 2048);
  const auto in_small_batches = score_text(context_, *self_, models_, sources, targets, 30);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(scored[i].log_probability(), expected[i], 1e-4);
    EXPECT_EQ(scored[i].log_probabilities, in_small_batches[i].log_probabilities);
    EXPECT_EQ(scored[i].length(), scored[i].target.size() + 1);
  }
}

TEST(WorkSharing, CutsEverySentenceOnceAndDealsCostsEvenly) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < 1000; ++i) rows.push_back(i % 40);
  for (const int ranks : {1, 2, 3, 4, 7}) {
    const std::vector<Chunk> chunks =
        cut_into_chunks(rows, {.rows = 1500, .sentences = 60, .pieces = pieces_for(Device::kCpu, ranks)});
    std::vector<int> seen(rows.size(), 0);
    for (const Chunk& chunk : chunks) {
      int64_t sum = 0;
      for (const size_t index : chunk.sentences) {
        ++seen[index];
        sum += rows[index];
      }
      EXPECT_EQ(chunk.rows, sum);
      EXPECT_LE(sum, 1500);
      EXPECT_LE(chunk.sentences.size(), 60U);
    }
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(seen[i], rows[i] > 0 ? 1 : 0);
    std::vector<double> load(static_cast<size_t>(ranks), 0.0);
    double total = 0.0;
    const std::vector<int> dealt = deal_by_cost(chunks, ranks);
    for (size_t c = 0; c < chunks.size(); ++c) {
      load[static_cast<size_t>(dealt[c])] += chunks[c].cost;
      total += chunks[c].cost;
    }
    for (const double cost : load) EXPECT_NEAR(cost, total / ranks, 0.03 * total / ranks) << ranks;
  }
  // A sentence longer than a chunk may be is one.
  EXPECT_EQ(cut_into_chunks({700, 3, 600}, {.rows = 500}).size(), 3U);
  EXPECT_TRUE(cut_into_chunks({}, {}).empty());
  EXPECT_EQ(pieces_for(Device::kCuda, 1), pieces_for(Device::kCuda, 4));
}

}  // namespace
}  // namespace ventris
