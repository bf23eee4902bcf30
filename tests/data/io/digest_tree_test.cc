// SPDX-License-Identifier: Apache-2.0
#include "data/io/digest.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/io/file_io.h"
#include "data/io/mapped_file.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

/// Branches: two whole ones and a part of a third. The last leaf is not full either.
constexpr int64_t kBytes = 2 * DigestTree::kLeafBytes * DigestTree::kLeavesOfABranch + 10000;

class DigestTreeTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    make(kBytes);
  }

  void make(int64_t bytes) {
    content_.assign(static_cast<size_t>(bytes), '\0');
    for (size_t i = DigestTree::begin_of(0); i < content_.size(); ++i)
      content_[i] = static_cast<char>(i * 2654435761U >> 13);
    path_ = put("file", content_);
    file_ = FileHandle(::open(path_.c_str(), O_RDWR));
    root_ = DigestTree::append_to(file_.fd(), bytes, path_, [&](const void* data, int64_t size, int64_t at) {
              ASSERT_EQ(write_all(file_.fd(), data, size, at), "");
            }).root();
  }

  int64_t size() const { return static_cast<int64_t>(std::filesystem::file_size(path_)); }
  DigestTree tree() const { return {file_.fd(), size(), path_}; }

  /// Flips a bit of a byte, calls, and puts the byte back.
  void with_flip(int64_t at, const std::function<void()>& call) const {
    char byte = 0;
    ASSERT_EQ(::pread(file_.fd(), &byte, 1, at), 1);
    const char other = static_cast<char>(byte ^ 4);
    ASSERT_EQ(::pwrite(file_.fd(), &other, 1, at), 1);
    call();
    ASSERT_EQ(::pwrite(file_.fd(), &byte, 1, at), 1);
  }

  std::string refusal(const std::function<void()>& call) const {
    const std::string message = message_of(ErrorKind::kBadData, call);
    EXPECT_TRUE(contains(message, path_)) << message;
    return message;
  }

  std::string content_;
  std::string path_;
  std::string root_;
  FileHandle file_;
};

TEST_F(DigestTreeTest, AnyRangeIsRead) {
  const DigestTree opened = tree();
  EXPECT_EQ(opened.root(), root_);
  EXPECT_TRUE(DigestTree::is_in(file_.fd(), size(), path_));
  constexpr int64_t kBranch = DigestTree::kLeafBytes * DigestTree::kLeavesOfABranch;
  const std::vector<std::pair<int64_t, int64_t>> ranges = {
      {512, 1},         {512, 4096},         {4095, 2},       {4096, 4096},
      {kBranch - 1, 2}, {700, 5000},         {kBytes - 1, 1}, {kBytes - 10, 0},
      {kBranch, 0},     {512, kBytes - 512}, {513, 1},        {kBranch, kBranch}};
  for (const auto& [at, bytes] : ranges) {
    std::string found(static_cast<size_t>(bytes), '?');
    opened.read(at, found.data(), bytes);
    EXPECT_TRUE(found == content_.substr(static_cast<size_t>(at), static_cast<size_t>(bytes))) << at;
  }
  opened.check_all(1);
  opened.check_all(3);
  char byte = 0;
  refusal([&] { opened.read(511, &byte, 1); });
  refusal([&] { opened.read(opened.end(), &byte, 1); });
}

TEST_F(DigestTreeTest, SmallFilesHaveOne) {
  for (const int64_t bytes : {513, 4095, 4096, 4097}) {
    make(bytes);
    std::string found(static_cast<size_t>(bytes - 512), '?');
    tree().read(512, found.data(), bytes - 512);
    EXPECT_TRUE(found == content_.substr(512)) << bytes;
    tree().check_all(2);
  }
}

TEST_F(DigestTreeTest, AChangedByteIsRefusedWhereItIs) {
  const DigestTree opened = tree();
  for (const int64_t at :
       {int64_t{512}, int64_t{4095}, int64_t{4096}, int64_t{1} << 20, kBytes - 1, kBytes}) {
    with_flip(at, [&] {
      const int64_t leaf = at / DigestTree::kLeafBytes;
      const std::string place =
          "bytes " + std::to_string(DigestTree::begin_of(leaf)) + " to " + std::to_string(leaf * 4096 + 4095);
      char byte = 0;
      EXPECT_TRUE(contains(refusal([&] { opened.read(at, &byte, 1); }), place));
      EXPECT_TRUE(contains(refusal([&] { opened.check_all(3); }), place));
      // Others are not concerned, and the file can be opened.
      const int64_t other = at > 8192 ? 512 : 9000;
      tree().read(other, &byte, 1);
      EXPECT_EQ(byte, content_[static_cast<size_t>(other)]);
    });
  }
}

TEST_F(DigestTreeTest, AChangedDigestIsRefused) {
  const DigestTree opened = tree();
  const int64_t leaves = opened.leaves() * 16;
  with_flip(opened.end() + 16, [&] {
    char byte = 0;
    EXPECT_TRUE(contains(refusal([&] { tree().read(512, &byte, 1); }), "do not match theirs"));
    tree().read((int64_t{1} << 20) + 5, &byte, 1);  // of another branch
  });
  for (const int64_t at : {opened.end() + leaves, size() - 1})
    with_flip(at, [&] { refusal([&] { tree(); }); });
}

TEST_F(DigestTreeTest, AMappingChecksWhatIsUsedOnce) {
  const DigestTree opened = tree();
  const MappedFile mapped(file_.fd(), size(), path_, &opened);
  constexpr int64_t kAt = 70000;
  mapped.check(mapped.at(kAt), 100);
  with_flip(kAt, [&] {
    mapped.check(mapped.at(kAt), 100);  // was checked
  });
  with_flip(kAt + 8192, [&] {
    refusal([&] { mapped.check(mapped.at(kAt), 10000); });
    refusal([&] { mapped.check(mapped.at(kAt + 8192), 1); });
  });
  mapped.check(mapped.at(kAt), 10000);
  mapped.expect(mapped.at(kAt), 10000);
}

TEST_F(DigestTreeTest, AMappingKnowsAnotherFileOfTheSameSize) {
  const DigestTree opened = tree();
  const MappedFile mapped(file_.fd(), size(), path_, &opened);
  const std::string whole = bytes_of(path_);
  content_[600] = static_cast<char>(content_[600] + 1);
  const std::string other = put("other", content_);
  const FileHandle file(::open(other.c_str(), O_RDWR));
  DigestTree::append_to(file.fd(), kBytes, other, [&](const void* data, int64_t bytes, int64_t at) {
    ASSERT_EQ(write_all(file.fd(), data, bytes, at), "");
  });
  mapped.check(mapped.at(5 * DigestTree::kLeafBytes), 1);
  ASSERT_EQ(write_all(file_.fd(), bytes_of(other).data(), size(), 0), "");
  // The page and its digest are those of the other file, and a page of the branch was used before.
  refusal([&] { mapped.check(mapped.at(600), 1); });
}

}  // namespace
}  // namespace ventris::data
