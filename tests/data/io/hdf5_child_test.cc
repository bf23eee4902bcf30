// SPDX-License-Identifier: Apache-2.0
#include "data/io/hdf5_child.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

class Hdf5Child : public FolderTest {
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

/// Calls `see` with children of this thread while it lives.
class Watcher {
 public:
  explicit Watcher(const std::function<void(pid_t)>& see)
      : children_(fmt::format("/proc/self/task/{}/children", ::gettid())), thread_([this, see] {
          while (!stop_) {
            std::ifstream file(children_);
            for (pid_t child = 0; file >> child;) see(child);
          }
        }) {}
  ~Watcher() {
    stop_ = true;
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  std::string children_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

bool is_confined(pid_t child) {
  std::ifstream file(fmt::format("/proc/{}/comm", child));
  std::string name;
  std::getline(file, name);  // "" of a process that has ended
  return name == "hdf5-reader";
}

TEST_F(Hdf5Child, HasNoFileAndNoEnvironmentOfTheProgram) {
  const FileHandle open = open_to_read(path());
  ASSERT_EQ(::setenv("PMIX_NAMESPACE", "1", 1), 0);
  std::atomic<int> seen = 0;
  std::atomic<bool> more = false;
  {
    const Watcher watcher([&](pid_t child) {
      if (!is_confined(child)) return;
      std::error_code gone;
      std::set<std::string> files;
      for (fs::directory_iterator entry(fmt::format("/proc/{}/fd", child), gone), end; !gone && entry != end;
           entry.increment(gone))
        files.insert(entry->path().filename());
      const std::string environment = bytes_of(fmt::format("/proc/{}/environ", child));
      if (files.size() > 3 || contains(environment, "PMIX")) more = true;
      if (!files.empty()) ++seen;
    });
    while (seen == 0) expect_readable();
  }
  EXPECT_FALSE(more);
  ::unsetenv("PMIX_NAMESPACE");
}

TEST_F(Hdf5Child, SignalsOfOthersDoNotEndIt) {
  std::atomic<int> sent = 0;
  const Watcher watcher([&](pid_t child) {
    if (!is_confined(child)) return;
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM, SIGTSTP})
      ::kill(child, number);
    ++sent;
  });
  while (sent == 0) expect_readable();
}

TEST_F(Hdf5Child, OneThatOthersKillIsNotTheFilesFault) {
  std::string message;
  {
    const Watcher watcher([&](pid_t child) {
      if (is_confined(child)) ::kill(child, SIGKILL);
    });
    while (message.empty()) {
      try {
        expect_readable();
      } catch (const DataError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kIo);
        message = error.what();
      }
    }
  }
  EXPECT_TRUE(contains(message, path() + ": the process that reads it was ended by signal 9")) << message;
  expect_readable();
}

TEST_F(Hdf5Child, TooFewDescriptorsAreNotTheFilesFault) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 3;  // the child inherits it, and cannot open its libraries
  const FileHandle file = open_to_read(path());
  const auto bytes = static_cast<int64_t>(fs::file_size(path()));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::string message =
      message_of(ErrorKind::kIo, [&] { list_hdf5_in_child(path(), file.fd(), bytes); });
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_TRUE(contains(message, path())) << message;
}

TEST_F(Hdf5Child, ALimitOnTheProcessorsTimeIsTold) {
  // Of a file on which the library crashes.
  const std::string hostile =
      testing::source_dir() + "/tests/fuzz/seeds/refused_corpus/crashes_the_library.h5";
  const FileHandle file = open_to_read(hostile);
  const auto bytes = static_cast<int64_t>(fs::file_size(hostile));
  const auto kind = [&] {
    try {
      list_hdf5_in_child(hostile, file.fd(), bytes);
    } catch (const DataError& error) {
      return error.kind();
    }
    return ErrorKind::kMissingInput;
  };
  EXPECT_EQ(kind(), ErrorKind::kBadData);
  const pid_t limited = ::fork();  // a hard limit cannot be taken back
  if (limited == 0) {
    const rlimit seconds = {.rlim_cur = 4, .rlim_max = 4};
    ::setrlimit(RLIMIT_CPU, &seconds);
    ::_exit(kind() == ErrorKind::kUnavailable ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(limited, &status, 0), limited);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace ventris::data
