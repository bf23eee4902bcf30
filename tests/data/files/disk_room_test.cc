// SPDX-License-Identifier: Apache-2.0
#include "data/files/disk_room.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// The largest file that this process may write, until the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class DiskRoomTest : public FolderTest {};

TEST_F(DiskRoomTest, TellsWhatIsFreeAndWhatIsAllowed) {
  const std::string path = in_folder("file");
  {
    const FileSizeLimit limit(123456789);
    const std::string text = room_at(path);
    EXPECT_TRUE(contains(text, " The disk of " + folder_.string() + " has ")) << text;
    EXPECT_TRUE(contains(text, " bytes free")) << text;
    EXPECT_TRUE(contains(text, " The limit on the size of a file is 123456789 bytes (ulimit -f).")) << text;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) {
    EXPECT_FALSE(contains(room_at(path), "ulimit"));
  }
  EXPECT_FALSE(contains(room_at(in_folder("absent/file")), "bytes free"));
}

}  // namespace
}  // namespace ventris::data
