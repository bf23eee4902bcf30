// SPDX-License-Identifier: Apache-2.0
#include "trainer/rank_consistency.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>

#include "backend/device/error.h"
#include "data/corpus.h"
#include "tests/support/thread_ranks.h"
#include "tests/support/tiny_run.h"

namespace ventris {
namespace {

TEST(Agreement, NamesAnOptionOfWhichRanksHaveListsOfOtherLengths) {
  const testing::TemporaryFolder folder;
  TrainOptions options = testing::tiny_run_options(testing::tiny_corpus(), folder / "run");
  options.freeze = {"embedding"};
  testing::ThreadRanks ranks(2);
  const auto errors = ranks.run([&](Communicator& communicator) {
    TrainOptions own = options;
    if (communicator.rank() == 1) own.freeze.emplace_back("encoder/*");
    check_same_run_on_all_ranks(communicator, own, data::Corpus(own.corpus));
  });
  for (const std::exception_ptr& error : errors) {
    try {
      if (error) std::rethrow_exception(error);
      ADD_FAILURE() << "accepted";
    } catch (const Error& refusal) {
      EXPECT_EQ(refusal.code(), ExitCode::kRanksDisagree);
      EXPECT_NE(std::string(refusal.what()).find("the ranks disagree on option freeze: rank 1 has"),
                std::string::npos)
          << refusal.what();
    }
  }
}

}  // namespace
}  // namespace ventris
