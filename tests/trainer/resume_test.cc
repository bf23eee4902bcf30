// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume.h"

#include <sys/inotify.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "comm/communicator.h"
#include "data/error.h"
#include "data/files/file_io.h"
#include "tests/trainer/small_model.h"
#include "tests/trainer/training_fixture.h"
#include "trainer/files/run_folder.h"
#include "trainer/progress.h"

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
    Progress progress(/*speaks=*/true, options_);
    return find_resume_point(*make_self_communicator(), options_, /*alone=*/true, progress);
  }

  TemporaryFolder runs_;
  TrainOptions options_ = tiny_run_options(tiny_corpus(), runs_ / "run");
  std::string newest_;
};

/// How often a file is opened, by any process, while one lives. Its reads are watched as well: the system
/// counts events that are equal and follow each other once.
class OpeningsOf {
 public:
  explicit OpeningsOf(const std::string& path) : events_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    EXPECT_GE(::inotify_add_watch(events_.fd(), path.c_str(), IN_OPEN | IN_ACCESS), 0);
  }
  int count() const {
    int found = 0;
    inotify_event event{};
    while (::read(events_.fd(), &event, sizeof(event)) == ssize_t{sizeof(event)}) {
      if ((event.mask & IN_OPEN) != 0) ++found;
    }
    return found;
  }

 private:
  data::FileHandle events_;
};

/// Bytes that this process has read so far.
int64_t bytes_read_so_far() {
  std::ifstream file("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  file >> name >> bytes;
  EXPECT_EQ(name, "rchar:");
  return bytes;
}

TEST_F(ResumeTest, OpensTheCheckpointOnceAndReadsItTwice) {
  options_.model_dir = runs_ / "wide";
  options_.model.d_model = 64;
  const std::string newest = train_alone(options_).last_checkpoint;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(newest));
  const auto of_corpus = static_cast<int64_t>(std::filesystem::file_size(options_.corpus));
  ASSERT_GT(size, 4 * of_corpus);
  const OpeningsOf openings(newest);
  const int64_t before = bytes_read_so_far();
  EXPECT_EQ(train_alone(options_).last_checkpoint, newest);
  EXPECT_LT(bytes_read_so_far() - before, 2 * size + 2 * of_corpus);
  EXPECT_EQ(openings.count(), 1);
}

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
