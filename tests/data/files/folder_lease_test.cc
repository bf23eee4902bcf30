// SPDX-License-Identifier: Apache-2.0
#include "data/files/folder_lease.h"

#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

using namespace std::chrono_literals;

// A lease of the tests is stale only where nobody renews it for minutes, or at once.
constexpr FolderLease::Times kPatient{.renewed_every = 20ms, .stale_after = 300s};
constexpr FolderLease::Times kHasty{.renewed_every = 100ms, .stale_after = 0ms};

class FolderLeaseTest : public FolderTest {
 protected:
  std::string refusal() const {
    try {
      const FolderLease lease(folder_.string(), "the second", kPatient);
    } catch (const DataError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
      return error.what();
    }
    return "";
  }
};

TEST_F(FolderLeaseTest, RefusesTheFolderOfAnotherThatRenewsAndNamesIt) {
  std::optional<FolderLease> held;
  held.emplace(folder_.string(), "the first", kPatient);
  const std::string message = refusal();
  EXPECT_NE(message.find(folder_.string()), std::string::npos) << message;
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
