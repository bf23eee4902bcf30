#include "trainer/resume.h"

#include "comm/communicator.h"
#include "data/error.h"
#include "tests/support/killed_children.h"
#include "tests/trainer/small_model.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/progress.h"

namespace ventris {
namespace {

using testing::expect_failure;
using testing::KilledChildren;
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
    Progress progress(/*speaks=*/true, options_);
    return find_resume_point(*make_self_communicator(), options_, /*alone=*/true, progress);
  }

  TemporaryFolder runs_;
  TrainOptions options_ = tiny_run_options(tiny_corpus(), runs_ / "run");
  std::string newest_;
};

TEST_F(ResumeTest, AReaderThatOthersKillIsStartedAgain) {
  const KilledChildren killed(1);
  EXPECT_EQ(find().path, newest_);
}

TEST_F(ResumeTest, NoCheckpointIsSetAsideWhereItsReaderIsKilled) {
  {
    const KilledChildren killed(2);
    expect_failure<data::DataError>([&] { find(); }, data::ErrorKind::kIo,
                                    {newest_ + ": the process that reads it was ended twice by signal 9"});
  }
  EXPECT_EQ(list_checkpoints(options_.model_dir), std::vector<std::string>{newest_});
  EXPECT_EQ(find().path, newest_);
}

}  // namespace
}  // namespace ventris
