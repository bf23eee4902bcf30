// SPDX-License-Identifier: Apache-2.0
#include "data/io/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "data/io/hdf5_writer.h"
#include "data/io/temporary_name.h"
#include "data/text/tokenizer.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

namespace fs = std::filesystem;

/// The id of a process that was there, called, and is not any more.
pid_t gone(const std::function<void()>& call = [] {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    call();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return child;
}

class AtomicFileTest : public FolderTest {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
};

TEST_F(AtomicFileTest, AFileFarLargerThanItsKindIsRefusedWithoutBeingRead) {
  const std::string path = in_folder("sparse");
  std::ofstream(path) << "x";
  fs::resize_file(path, kMaxTokenizerBytes + 1);
  for (const auto& read :
       {+[](const std::string& file) { static_cast<void>(read_file(file, kMaxTokenizerBytes)); },
        +[](const std::string& file) { static_cast<void>(Tokenizer::from_file(file)); }}) {
    const std::string message = message_of(ErrorKind::kBadData, [&] { read(path); });
    EXPECT_NE(message.find("is it the right file?"), std::string::npos) << message;
  }
}

TEST(KindOfCreating, WhatMayPassIsWorthAnotherStart) {
  for (const int error : {ENOSPC, EDQUOT, EIO, EMFILE, ENFILE})
    EXPECT_EQ(kind_of_creating(error), ErrorKind::kIo);
  for (const int error : {EACCES, EPERM, EROFS, ENOENT, ENOTDIR, ENAMETOOLONG})
    EXPECT_EQ(kind_of_creating(error), ErrorKind::kCannotCreate);
}

TEST_F(AtomicFileTest, WorkingDataTakeOneDescriptor) {
  const auto open_files = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = open_files();
  const TemporaryArray array(in_folder("corpus.h5"), ElementType::kI32);
  EXPECT_EQ(open_files(), before + 1);
  EXPECT_EQ(names(), std::vector<std::string>());
}

TEST_F(AtomicFileTest, AFileHasNoNameBeforeItIsWhole) {
  if (!open_unnamed(folder_.string()).valid()) {
    GTEST_SKIP() << "the file system has no files without names";
  }
  {
    AtomicFile file(in_folder("model.h5"));
    file.write("half");
    EXPECT_EQ(names(), std::vector<std::string>());
  }
  EXPECT_EQ(names(), std::vector<std::string>());
}

TEST_F(AtomicFileTest, AFileOfTheLongestNameIsReplacedAndWhatAKilledProcessLeftIsRemoved) {
  const std::string name = std::string(251, 'n') + ".txt";
  for (const char* text : {"old", "new"}) {
    AtomicFile file(in_folder(name));
    file.write(text);
    file.commit();
  }
  EXPECT_EQ(names(), std::vector<std::string>{name});
  gone([&] { std::ofstream(temporary_name(in_folder(name))) << "half"; });
  ASSERT_EQ(names().size(), 2U);
  remove_abandoned(in_folder(name));
  EXPECT_EQ(names(), std::vector<std::string>{name});
}

TEST_F(AtomicFileTest, NothingIsWrittenIntoAFolderThatTookThePlaceOfTheFirst) {
  const std::string run = in_folder("run");
  const std::string moved = in_folder("moved");
  fs::create_directory(run);
  for (const bool replaced : {false, true}) {
    AtomicFile file(run + "/model.h5");
    file.write("x");
    fs::rename(run, moved);
    if (replaced) fs::create_directory(run);
    const std::string message = message_of(ErrorKind::kIo, [&] { file.commit(); });
    EXPECT_TRUE(contains(message, run + "/model.h5: the folder was moved")) << message;
    EXPECT_FALSE(fs::exists(run + "/model.h5"));
    EXPECT_FALSE(fs::exists(moved + "/model.h5"));
    fs::remove_all(run);
    fs::rename(moved, run);
  }
}

TEST_F(AtomicFileTest, BytesThatAreReplacedMayStillBeInTheBuffer) {
  AtomicFile file(in_folder("model.bin"));
  file.write("0123456789");
  file.write_at(3, "xyz", 3);
  EXPECT_EQ(file.size(), 10);
  file.write(std::string(200000, '-'));
  file.write("end");
  EXPECT_EQ(file.size(), 200013);
  file.commit();
  EXPECT_EQ(bytes_of(in_folder("model.bin")), "012xyz6789" + std::string(200000, '-') + "end");
}

TEST_F(AtomicFileTest, TheNextWriterOfANameRemovesWhatOthersThatAreGoneLeftOfIt) {
  const std::string target = in_folder("model.h5");
  const std::string ours = temporary_name(target);
  const std::string host = ours.substr(0, ours.rfind('.', ours.rfind('.') - 1));
  const std::string id = std::to_string(gone());
  const std::string left = host + "." + id + ".0123456789abcdef";
  const std::string left_folder = host + "." + id + ".00000000000000ff";
  const std::string other_file = in_folder("other.h5.tmp.host.") + id + ".0123456789abcdef";
  const std::string written = host + "." + id + ".fedcba9876543210";  // by one in another container
  for (const std::string& file : {ours, left, other_file, written}) std::ofstream(file) << "x";
  fs::create_directories(left_folder + "/deep");
  const FileHandle held(::open(written.c_str(), O_RDWR | O_CLOEXEC));
  mark_as_being_written(held.fd());

  AtomicFile file(target);
  for (const std::string& removed : {left, left_folder}) {
    EXPECT_FALSE(fs::exists(removed)) << removed;
  }
  for (const std::string& kept : {ours, other_file, written}) EXPECT_TRUE(fs::exists(kept)) << kept;
}

TEST_F(AtomicFileTest, TheRoomIsWhatIsFreeAndWhatIsAllowed) {
  const std::string path = in_folder("file");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit = {123456789, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string text = room_at(path);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(contains(text, " The disk of " + folder_.string() + " has ")) << text;
  EXPECT_TRUE(contains(text, " bytes free")) << text;
  EXPECT_TRUE(contains(text, " The limit on the size of a file is 123456789 bytes (ulimit -f).")) << text;
  EXPECT_EQ(contains(room_at(path), "ulimit"), before.rlim_cur != RLIM_INFINITY);
  EXPECT_FALSE(contains(room_at(in_folder("absent/file")), "bytes free"));
}

}  // namespace
}  // namespace ventris::data
