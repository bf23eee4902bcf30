// SPDX-License-Identifier: Apache-2.0
#include "trainer/checkpoint/resume.h"

#include <sys/resource.h>
#include <unistd.h>

#include "comm/communicator.h"
#include "data/error.h"
#include "tests/trainer/small_model.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/checkpoint/run_folder.h"
#include "trainer/observers/progress.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::TemporaryFolder;
using testing::tiny_corpus;
using testing::tiny_run_options;
using testing::train_alone;

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.max_steps = 2;
    newest_ = train_alone(options_).last_checkpoint;
  }

  ResumePoint find() {
    Progress progress(/*is_rank_zero=*/true, options_);
    return find_resume_point(*make_self_communicator(), options_, /*alone=*/true, progress);
  }

  TemporaryFolder runs_;
  TrainOptions options_ = tiny_run_options(tiny_corpus(), runs_ / "run");
  std::string newest_;
};

TEST_F(ResumeTest, NoCheckpointIsSetAsideWhereItsReaderCannotStart) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(STDOUT_FILENO);
  ::close(next);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(next) + 2;  // of a file and of one end of the pipe
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  expect_failure<data::DataError>([&] { find(); }, data::ErrorKind::kIo,
                                  {newest_ + ": cannot create a pipe"});
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(list_checkpoints(options_.model_dir), std::vector<std::string>{newest_});
  EXPECT_EQ(find().path, newest_);
}

}  // namespace
}  // namespace ventris
