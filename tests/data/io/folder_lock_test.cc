// SPDX-License-Identifier: Apache-2.0
#include "data/io/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;

/// The message of the refusal of a call, "" if there is none.
template <typename Call>
std::string refusal_of(const Call& call, ErrorKind kind = ErrorKind::kCannotCreate) {
  try {
    call();
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

class FolderLockTest : public FolderTest {
 protected:
  std::string refusal() const {
    return refusal_of([&] { const FolderLock lock(folder_.string(), 30ms); });
  }
};

TEST_F(FolderLockTest, RefusesTheFolderOfAnotherAndNamesIt) {
  std::optional<FolderLock> held(folder_.string());
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, folder_.string())) << message;
  EXPECT_NE(message.find("process " + std::to_string(::getpid())), std::string::npos) << message;
  held.reset();
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, WaitsForOneThatIsAboutToEnd) {
  std::optional<FolderLock> held(folder_.string());
  std::thread ends([&] {
    std::this_thread::sleep_for(50ms);
    held.reset();
  });
  EXPECT_TRUE(FolderLock(folder_.string(), 60s).held());
  ends.join();
}

TEST_F(FolderLockTest, TellsOnceThatItWaitsForLong) {
  const FolderLock held(folder_.string());
  std::vector<std::string> holders;
  const auto waits = [&](const std::string& holder) { holders.push_back(holder); };
  EXPECT_THROW(FolderLock(folder_.string(), 1500ms, waits), DataError);
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_NE(holders.front().find("process " + std::to_string(::getpid())), std::string::npos);
  EXPECT_THROW(FolderLock(folder_.string(), 1ms, waits), DataError);
  EXPECT_EQ(holders.size(), 1U);
}

TEST_F(FolderLockTest, DoesNotOutliveAProcessThatIsKilled) {
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder_.string());
    if (::write(told[1], "x", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char ready = 0;
  ASSERT_EQ(::read(told[0], &ready, 1), 1);
  EXPECT_NE(refusal().find("process " + std::to_string(child)), std::string::npos);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(refusal(), "");
  ::close(told[0]);
  ::close(told[1]);
}

TEST_F(FolderLockTest, RefusesAFolderThatIsNotThere) {
  EXPECT_THROW(FolderLock(in_folder("missing")), DataError);
}

TEST_F(FolderLockTest, TellsThatTheFolderWasMovedOrReplaced) {
  namespace fs = std::filesystem;
  const std::string run = in_folder("run");
  const std::string moved = in_folder("moved");
  const auto refusal = [](const FolderLock& lock) {
    return refusal_of([&] { lock.check(); }, ErrorKind::kIo);
  };
  fs::create_directory(run);
  const FolderLock lock(run);
  const FolderIdentity identity(run);
  EXPECT_EQ(refusal(lock), "");
  fs::rename(run, moved);
  EXPECT_FALSE(identity.holds());
  std::string message = refusal(lock);
  EXPECT_NE(message.find(run), std::string::npos) << message;
  EXPECT_NE(message.find("is now " + moved), std::string::npos) << message;
  fs::create_directory(run);
  EXPECT_NE(refusal(lock), "");
  const FolderLock other(run);
  EXPECT_NE(refusal(lock), "");
  EXPECT_EQ(refusal(other), "");
  EXPECT_FALSE(identity.holds());
  fs::remove_all(run);
  fs::rename(moved, run);
  EXPECT_EQ(refusal(lock), "");
  EXPECT_TRUE(identity.holds());
  fs::remove(run + "/.lock");
  message = refusal(lock);
  EXPECT_NE(message.find("the file .lock of the run folder " + run), std::string::npos) << message;
  fs::remove_all(run);
  message = refusal(lock);
  EXPECT_NE(message.find("the run folder " + run + " was removed with its checkpoints while"),
            std::string::npos)
      << message;
}

TEST_F(FolderLockTest, IsHeldByASecondUserWhoMayOnlyReadItsFile) {
  namespace fs = std::filesystem;
  {
    const FolderLock first(folder_.string());
  }
  const std::string file = in_folder(".lock");
  fs::permissions(file, fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(folder_, fs::perms::all);
  const auto in_child = [&](auto&& action) {
    const pid_t child = ::fork();
    if (child == 0) {
      constexpr uid_t kNobody = 65534;
      if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
      ::_exit(action() ? 0 : 2);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  if (in_child([&] { return ::access(folder_.c_str(), R_OK | W_OK | X_OK) == 0; }) != 0)
    GTEST_SKIP() << "other users may not enter the folder of temporary files";
  EXPECT_EQ(in_child([&] { return FolderLock(folder_.string()).held(); }), 0);
  const FolderLock held(folder_.string());
  EXPECT_EQ(in_child([&] { return !refusal().empty(); }), 0);
}

TEST_F(FolderLockTest, AFolderWithoutALockIsItselfUntilThereIsOne) {
  const FolderIdentity identity(folder_.string());
  EXPECT_TRUE(identity.holds());
  const FolderLock lock(folder_.string());
  EXPECT_FALSE(identity.holds());
}

// A lease of the tests is stale only where nobody renews it for minutes, or at once.
constexpr FolderLease::Times kPatient{.renewed_every = 20ms, .stale_after = 300s};
constexpr FolderLease::Times kHasty{.renewed_every = 100ms, .stale_after = 0ms};

class FolderLeaseTest : public FolderTest {
 protected:
  std::string refusal() const {
    return refusal_of([&] { const FolderLease lease(folder_.string(), "the second", kPatient); });
  }
};

TEST_F(FolderLeaseTest, RefusesTheFolderOfAnotherThatRenewsAndNamesIt) {
  std::optional<FolderLease> held;
  held.emplace(folder_.string(), "the first", kPatient);
  const std::string message = refusal();
  EXPECT_TRUE(contains(message, folder_.string())) << message;
  EXPECT_NE(message.find("in use by the first,"), std::string::npos) << message;
  EXPECT_FALSE(held->lost());
  EXPECT_EQ(files(), 1);
  held.reset();
  EXPECT_EQ(files(), 0);
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLeaseTest, WaitsForTheLeaseOfAProcessThatWasKilledAndTakesIt) {
  const pid_t child = ::fork();
  if (child == 0) {
    new FolderLease(folder_.string(), "the first", kPatient);
    ::_exit(0);  // without its destructor
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_EQ(files(), 1);
  constexpr FolderLease::Times kSoon{.renewed_every = 20ms, .stale_after = 200ms};
  const FolderLease lease(folder_.string(), "the second", kSoon);
  EXPECT_NE(bytes_of(in_folder(".lease")).find("the second"), std::string::npos);
}

TEST_F(FolderLeaseTest, OneThatWasTakenIsLostAndNotGivenUp) {
  std::optional<FolderLease> first;
  first.emplace(folder_.string(), "the first", kPatient);
  std::filesystem::remove(in_folder(".lease"));
  const FolderLease second(folder_.string(), "the second", kHasty);
  while (!first->lost()) std::this_thread::sleep_for(1ms);
  first.reset();
  EXPECT_NE(bytes_of(in_folder(".lease")).find("the second"), std::string::npos);
  EXPECT_FALSE(second.lost());
}

}  // namespace
}  // namespace ventris::data
