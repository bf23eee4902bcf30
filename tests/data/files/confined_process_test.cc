// SPDX-License-Identifier: Apache-2.0
#include "data/files/confined_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/files/hdf5_process.h"

namespace ventris::data {
namespace {

using std::chrono::milliseconds;

ConfinedLimits limits_with(milliseconds patience) {
  return {.input = -1,
          .memory_bytes = size_t{64} << 20,
          .cpu_seconds = 5,
          .answer_bytes = 1000,
          .patience = patience};
}

[[noreturn]] void wait_for_ever() {
  while (true) ::pause();
}

/// A counter that this process and its children share.
class SharedCounter {
 public:
  SharedCounter()
      : page_(::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                     -1, 0)),
        count_(new (page_) std::atomic<int>(0)) {}
  ~SharedCounter() { ::munmap(page_, sizeof(std::atomic<int>)); }
  SharedCounter(const SharedCounter&) = delete;
  SharedCounter& operator=(const SharedCounter&) = delete;
  std::atomic<int>& operator*() { return *count_; }

 private:
  void* page_;
  std::atomic<int>* count_;
};

void expect_no_children() {
  std::ifstream file("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  const std::vector<pid_t> children{std::istream_iterator<pid_t>(file), {}};
  EXPECT_THAT(children, ::testing::ElementsAre(Hdf5Process::of_program().id()));
}

TEST(ConfinedProcess, AnswersWithWhatTheWorkReturns) {
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), [] { return "done"; });
  EXPECT_TRUE(answer.complete) << answer.text;
  EXPECT_EQ(answer.text, "done");
  expect_no_children();
}

TEST(ConfinedProcess, AChildThatNeverAnswersEndsWithAReason) {
  const ConfinedAnswer answer =
      run_confined(limits_with(milliseconds(50)), []() -> std::string { wait_for_ever(); });
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.text, "it did not answer in 0.05 s");
  expect_no_children();
}

TEST(ConfinedProcess, ACrashIsNotTriedAgain) {
  SharedCounter attempts;
  const auto work = [&]() -> std::string {
    ++*attempts;
    std::raise(SIGSEGV);
    return "";
  };
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), work);
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.text, "it ended with Segmentation fault");
  EXPECT_EQ(*attempts, 1);
}

TEST(ConfinedProcess, AChildThatOthersKillIsNotTheFilesFault) {
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), []() -> std::string {
    ::kill(::getpid(), SIGKILL);
    wait_for_ever();
  });
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.killed_by, SIGKILL);
  expect_no_children();
}

TEST(ConfinedProcess, ASignalOfACrashThatOthersSendIsNotTheFilesFault) {
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGXCPU}) {
    const auto work = [&]() -> std::string {
      const pid_t reader = ::getpid();
      // A grandchild is another process; the reader waits for its end.
      if (::fork() == 0) {
        ::kill(reader, number);
        ::_exit(0);
      }
      wait_for_ever();
    };
    const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), work);
    EXPECT_FALSE(answer.complete);
    EXPECT_EQ(answer.killed_by, SIGKILL) << ::strsignal(number) << ": " << answer.text;
  }
  expect_no_children();
}

TEST(ConfinedProcess, TooFewDescriptorsAreNotTheFilesFault) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  // The pipe can be made; the child's own descriptors cannot.
  const int next = ::dup(STDOUT_FILENO);
  ::close(next);
  few.rlim_cur = static_cast<rlim_t>(next) + 2;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::string message;
  try {
    run_confined(limits_with(milliseconds(60'000)), [] { return std::string("done"); });
  } catch (const DataError& error) {
    message = error.what();
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_NE(message.find("ulimit -n"), std::string::npos) << message;
}

TEST(ConfinedProcess, WorkThatComputesForTooLongIsNotTriedAgain) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer holds the signal back";
#endif
  SharedCounter attempts;
  const auto work = [&]() -> std::string {
    ++*attempts;
    while (true) {
      volatile int more = 0;
      static_cast<void>(more);
    }
  };
  ConfinedLimits limits = limits_with(milliseconds(60'000));
  limits.cpu_seconds = 1;
  const ConfinedAnswer answer = run_confined(limits, work);
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.text, "it took too long");
  EXPECT_EQ(answer.killed_by, 0);
  EXPECT_EQ(*attempts, 1);
}

TEST(ConfinedProcess, ALimitOfItsOwnOnTheProcessorsTimeIsTold) {
  const pid_t child = ::fork();  // a hard limit cannot be taken back
  if (child == 0) {
    const rlimit second = {.rlim_cur = 1, .rlim_max = 1};
    ::setrlimit(RLIMIT_CPU, &second);
    const ConfinedAnswer done = run_confined(limits_with(milliseconds(60'000)), [] {
      const std::clock_t begin = std::clock();  // some ticks of the system's clock
      while (std::clock() - begin < CLOCKS_PER_SEC / 10) {
      }
      return std::string("done");
    });
    ::_exit(done.complete && done.short_of_time ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_FALSE(run_confined(limits_with(milliseconds(60'000)), [] { return "done"; }).short_of_time);
}

TEST(ConfinedProcess, WorkThatTakesMoreMemoryThanItMayEnds) {
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), [] {
    const std::string much(size_t{1} << 30, 'x');
    return much.substr(0, 10);
  });
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.killed_by, 0);
  expect_no_children();
}

TEST(ConfinedProcess, SignalsOfOthersDoNotEndIt) {
  // mpirun and terminals send them to the whole process group.
  const auto work = []() -> std::string {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGALRM}) {
      ::kill(::getpid(), number);
    }
    return "alive";
  };
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), work);
  EXPECT_TRUE(answer.complete) << answer.text;
  EXPECT_EQ(answer.text, "alive");
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(::sigismember(&mask, SIGTERM)) << "this process is to hear them";
}

TEST(ConfinedProcess, AnAnswerThatIsTooLongIsRefused) {
  // Longer than a pipe holds, so that the child would wait for its reader.
  const ConfinedAnswer answer =
      run_confined(limits_with(milliseconds(60'000)), [] { return std::string(1 << 20, 'a'); });
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.text, "its answer is too long");
  expect_no_children();
}

TEST(ConfinedProcess, AChildThatClosesItsPipeAndStaysIsEnded) {
  const auto work = []() -> std::string {
    ::close(3);
    wait_for_ever();
  };
  const ConfinedAnswer answer = run_confined(limits_with(milliseconds(60'000)), work);
  EXPECT_FALSE(answer.complete);
  EXPECT_EQ(answer.killed_by, 0) << "it is this process that ends it";
  expect_no_children();
}

}  // namespace
}  // namespace ventris::data
