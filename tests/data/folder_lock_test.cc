#include "data/folder_lock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;

class FolderLockTest : public FolderTest {
 protected:
  std::string refusal() const {
    try {
      const FolderLock lock(folder_.string(), 30ms);
    } catch (const DataError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
      return error.what();
    }
    return "";
  }
};

TEST_F(FolderLockTest, RefusesTheFolderOfAnotherAndNamesIt) {
  std::optional<FolderLock> held(folder_.string());
  const std::string message = refusal();
  EXPECT_NE(message.find(folder_.string()), std::string::npos) << message;
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

}  // namespace
}  // namespace ventris::data
