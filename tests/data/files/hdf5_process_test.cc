// SPDX-License-Identifier: Apache-2.0
#include "data/files/hdf5_process.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/error.h"
#include "data/files/hdf5_reader.h"
#include "data/files/hdf5_writer.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

class Hdf5ProcessTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    Hdf5Writer writer(path());
    writer.write_attribute("/", "step", int64_t{7});
    writer.commit();
  }
  std::string path() const { return in_folder("sample.h5"); }
  void expect_readable() const { EXPECT_EQ(Hdf5Reader(path()).int_attribute("/", "step"), 7); }
};

TEST_F(Hdf5ProcessTest, ServesAllThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int read = 0; read < 20; ++read) expect_readable();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Hdf5ProcessTest, HoldsNoFileOfTheProgram) {
  const FileHandle open = open_to_read(path());
  const Hdf5Process own;
  const auto folder = fmt::format("/proc/{}/fd", own.id());
  const auto targets = [&] {
    std::multiset<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      found.insert(std::filesystem::read_symlink(entry.path()).string().substr(0, 9));
    return found;
  };
  expect_readable();  // then it has closed them
  const std::multiset<std::string> found = targets();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_EQ(found.count("/dev/null"), 3U);
  EXPECT_TRUE(found.rbegin()->starts_with("socket:[")) << *found.rbegin();
}

TEST_F(Hdf5ProcessTest, IsDeafToWhatIsSentToTheGroup) {
  const Hdf5Process own;
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE, SIGTSTP})
    ASSERT_EQ(::kill(own.id(), number), 0);
  expect_readable();
}

TEST_F(Hdf5ProcessTest, OneThatOthersKillIsNotTheFilesFault) {
  {
    const Hdf5Process own;
    ASSERT_EQ(::kill(own.id(), SIGKILL), 0);
    for (int i = 0; i < 2; ++i) {
      const std::string message = message_of(ErrorKind::kIo, [&] { const Hdf5Reader reader(path()); });
      EXPECT_TRUE(contains(message, path() + ": the process of this program that reads HDF5 files is gone"))
          << message;
    }
  }
  expect_readable();
}

TEST_F(Hdf5ProcessTest, AReaderThatOthersKillIsNotTheFilesFault) {
  const Hdf5Process own;
  std::atomic<bool> stop = false;
  std::thread killer([&] {
    while (!stop) {
      std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", own.id()));
      pid_t reader = 0;
      if (children >> reader) ::kill(reader, SIGKILL);
    }
  });
  std::string message;
  const auto until = steady_clock::now() + seconds(60);
  while (message.empty() && steady_clock::now() < until) {
    try {
      expect_readable();
    } catch (const DataError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      message = error.what();
    }
  }
  stop = true;
  killer.join();
  EXPECT_TRUE(contains(message, path() + ": the process that reads it was ended by signal 9")) << message;
  expect_readable();
}

TEST_F(Hdf5ProcessTest, EndsWithTheProgramHoweverThatEnds) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t program = ::fork();
  if (program == 0) {
    const Hdf5Process own;
    const pid_t id = own.id();
    static_cast<void>(::write(ends[1], &id, sizeof(id)) == sizeof(id));
    ::kill(::getpid(), SIGKILL);
  }
  pid_t id = 0;
  ASSERT_EQ(::read(ends[0], &id, sizeof(id)), static_cast<ssize_t>(sizeof(id)));
  int status = 0;
  EXPECT_EQ(::waitpid(program, &status, 0), program);
  EXPECT_EQ(::waitpid(id, &status, 0), id);
  ::close(ends[0]);
  ::close(ends[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace ventris::data
