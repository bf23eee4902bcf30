#include "trainer/translation.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/tiny_run.h"
#include "trainer/weights.h"

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

  std::vector<std::vector<Translation>> translate(const std::vector<std::string>& lines,
                                                  const BeamSearchOptions& options, int64_t* cut = nullptr) {
    return translate_text(context_, *self_, *model_, lines, options, cut);
  }

  static TemporaryFolder* folder_;
  static std::string* checkpoint_;
  Context context_{{.threads = 1}};
  std::unique_ptr<Communicator> self_ = make_self_communicator();
  std::unique_ptr<LoadedModel> model_ = load_model(context_, *checkpoint_, DType::kF32);
};
TemporaryFolder* TranslationTest::folder_ = nullptr;
std::string* TranslationTest::checkpoint_ = nullptr;

std::vector<std::string> some_lines(int count) {
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) lines.push_back(testing::tiny_pair(i * 7).first);
  return lines;
}

TEST_F(TranslationTest, ALineHasTheSameTranslationAloneAndAmongOthersInAnyOrder) {
  const std::vector<std::string> lines = some_lines(300);  // several chunks
  const auto together = translate(lines, {});
  ASSERT_EQ(together.size(), lines.size());
  std::vector<std::string> backwards(lines.rbegin(), lines.rend());
  const auto reversed = translate(backwards, {});
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(together[i].size(), 1U);
    EXPECT_EQ(reversed[lines.size() - 1 - i][0].text, together[i][0].text);
  }
  for (size_t i = 0; i < lines.size(); i += 50)
    EXPECT_EQ(translate({lines[i]}, {})[0][0].text, together[i][0].text);
}

TEST_F(TranslationTest, NBestComesBestFirst) {
  const auto found = translate(some_lines(5), {.beam_size = 4, .n_best = 3});
  for (const auto& hypotheses : found) {
    ASSERT_EQ(hypotheses.size(), 3U);
    EXPECT_GE(hypotheses[0].score, hypotheses[1].score);
    EXPECT_GE(hypotheses[1].score, hypotheses[2].score);
    EXPECT_LT(hypotheses[0].log_probability, 0.0);
  }
}

TEST_F(TranslationTest, EmptyLinesGiveEmptyTranslations) {
  const auto found = translate({"", "red sun", "   "}, {});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].at(0).text, "");
  EXPECT_EQ(found[2].at(0).text, "");
  EXPECT_TRUE(translate({}, {}).empty());
}

TEST_F(TranslationTest, LinesThatAreTooLongAreCutAndCounted) {
  std::string line;
  for (int i = 0; i < 100; ++i) line += "elk ";
  int64_t cut = -1;
  const auto found = translate({line, "one two"}, {.max_extra_length = 3}, &cut);
  EXPECT_EQ(cut, 1);
  EXPECT_EQ(found.size(), 2U);
  translate({"one two"}, {}, &cut);
  EXPECT_EQ(cut, 0);
}

}  // namespace
}  // namespace ventris
