// SPDX-License-Identifier: Apache-2.0
#include "trainer/validation_metric.h"

#include <gtest/gtest.h>

#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "backend/error.h"
#include "data/corpus.h"
#include "data/prepare.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/tiny_run.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/agreement.h"
#include "trainer/files/run_folder.h"
#include "trainer/validation_sets.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

/// Writes a corpus whose references are Chinese into the folder, and returns its path.
std::string make_chinese_corpus(const TemporaryFolder& folder) {
  const std::vector<std::string> chinese = {"我們昨天在海邊看見了很多漂亮的小船",
                                            "他的朋友明天早上要坐火車去北京",
                                            "孩子們在花園裡唱歌跳舞玩得很開心"};
  const std::string source = folder / "lines.en";
  const std::string target = folder / "lines.zh";
  std::ofstream english(source);
  std::ofstream other(target);
  for (int i = 0; i < 30; ++i) {
    english << testing::tiny_pair(i).first << '\n';
    other << chinese[static_cast<size_t>(i) % chinese.size()] << '\n';
  }
  english.close();
  other.close();
  data::PrepareOptions options;
  options.corpora = {{.name = "train", .files = {{source, target}}}};
  options.valid = {{source, target}};
  options.tokenizer.vocab_size = 90;
  options.output = folder / "corpus.h5";
  data::prepare(options);
  return options.output;
}

std::string refusal_of_metric(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Error& refusal) {
    EXPECT_EQ(refusal.code(), ExitCode::kRanksDisagree);
    return refusal.what();
  }
  return "";
}

TEST(ValidTokenizer, RanksWithOtherOptionsAreRefusedAndDoNotWaitForOneAnother) {
  const TemporaryFolder folder;
  const std::string path = make_chinese_corpus(folder);
  TrainOptions chooses = testing::tiny_run_options(path, folder / "run");
  chooses.valid_every = 2;
  TrainOptions named = chooses;
  named.valid_tokenize = "13a";
  TrainOptions silent = chooses;
  silent.valid_every = 0;
  for (const TrainOptions& other : {named, silent}) {
    testing::ThreadRanks ranks(2);
    const auto errors = ranks.run([&](Communicator& communicator) {
      const data::Corpus corpus(path);
      TrainOptions options = communicator.rank() == 0 ? chooses : other;
      resolve_valid_tokenizer(options, "", ValidationSets(corpus).first_references());
      EXPECT_EQ(options.valid_tokenize, communicator.rank() == 0 ? "zh" : "13a");
      check_same_run_on_all_ranks(communicator, options, corpus);
    });
    for (const std::exception_ptr& error : errors)
      EXPECT_NE(refusal_of_metric(error).find("the ranks disagree on option valid_"), std::string::npos);
  }
}

TEST(ValidTokenizer, AResumeWithAnotherOneWarns) {
  const TemporaryFolder folder;
  TrainOptions run = testing::tiny_run_options(make_chinese_corpus(folder), folder / "run");
  run.valid_every = 2;
  run.valid_beam_size = 1;
  run.valid_max_sentences = 1;
  run.save_every = 2;
  run.max_steps = 4;
  EXPECT_EQ(testing::train_alone(run).best_step, 2);
  run.max_steps = 6;
  run.valid_tokenize = "char";
  ::testing::internal::CaptureStderr();
  testing::train_alone(run);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "validations were compared by bleu:zh and now by bleu:char"),
            std::string::npos);
}

}  // namespace
}  // namespace ventris
