// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>

#include "data/error.h"
#include "data/io/element_type.h"
#include "data/io/file_io.h"
#include "data/io/hdf5_contents.h"
#include "data/io/hdf5_reader.h"
#include "data/io/hdf5_writer.h"
#include "tests/data/test_files.h"

namespace ventris::data {
namespace {

class Hdf5FileTest : public FolderTest {};

std::string write_sample(const std::string& path) {
  Hdf5Writer writer(path);
  writer.write_attribute("/", "format", "sample");
  writer.write_attribute("/", "step", int64_t{-12000});
  writer.write_attribute("/", "rate", 0.1);
  const std::vector<float> weights = {1.5f, -2.0f, 0.0f, 3.25f, 1e-30f, 6.0f};
  const std::vector<int64_t> shape = {2, 3};
  writer.write("/model/zeta/weight", ElementType::kF32, shape, weights.data());
  writer.write("/model/alpha/weight", ElementType::kF32, shape, weights.data());
  writer.write_attribute("/model/zeta/weight", "note", "größe");
  writer.create("/tokens", ElementType::kI32, 5);
  const int32_t tokens[5] = {1, 2, 3, 4, 5};
  writer.append("/tokens", tokens, 2);
  writer.append("/tokens", tokens + 2, 3);
  writer.commit();
  return writer.digest();
}

/// While it lives nothing can be opened.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(Hdf5FileTest, AFileThatIsRemovedWhileItIsReadIsReadToItsEnd) {
  const std::string path = in_folder("sample.h5");
  write_sample(path);
  const FileHandle file = open_to_read(path);
  struct stat status {};
  ASSERT_EQ(::fstat(file.fd(), &status), 0);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const Hdf5Contents contents(path, file.fd(), status.st_size, status.st_size);
  EXPECT_NE(contents.find_dataset("/tokens"), nullptr);
  EXPECT_NE(contents.find_attribute("/", "step"), nullptr);
}

TEST_F(Hdf5FileTest, AWrittenFileIsComparedWithItsDigestOfEitherKind) {
  const std::vector<int32_t> tokens(5000, 7);
  const int64_t size = std::ssize(tokens);
  for (const FileDigest kind : {FileDigest::kFlat, FileDigest::kTree}) {
    const std::string path = in_folder("sample.h5");
    Hdf5Writer writer(path, 0, kind);
    writer.write("/tokens", ElementType::kI32, {&size, 1}, tokens.data());
    writer.commit();
    writer.verify();
    std::string bytes = bytes_of(path);
    bytes[bytes.size() / 2] ^= 1;
    put("sample.h5", bytes);
    const std::string message = message_of(ErrorKind::kIo, [&] { writer.verify(); });
    EXPECT_TRUE(contains(message, path) && contains(message, writer.digest())) << message;
    EXPECT_TRUE(contains(message, "is faulty")) << message;
    ASSERT_EQ(::unlink(path.c_str()), 0);
    const std::string missing = message_of(ErrorKind::kIo, [&] { writer.verify(); });
    EXPECT_TRUE(contains(missing, "No such file") && !contains(missing, "is faulty")) << missing;
  }
}

TEST_F(Hdf5FileTest, AFileThatIsThereAndCannotBeOpenedIsNotMissing) {
  write_sample(in_folder("sample.h5"));
  const NoDescriptors none;
  const std::string message =
      message_of(ErrorKind::kIo, [&] { const Hdf5Reader reader(in_folder("sample.h5")); });
  EXPECT_NE(message.find("Too many open files"), std::string::npos) << message;
}

TEST_F(Hdf5FileTest, AFileWhoseFolderCannotBeSyncedIsWhole) {
  {
    Hdf5Writer writer(in_folder("whole.h5"));
    writer.write_attribute("/", "step", int64_t{7});
    const NoDescriptors none;
    const std::string message = message_of(ErrorKind::kIo, [&] { writer.commit(); });
    EXPECT_NE(message.find("the file is complete, but its folder"), std::string::npos) << message;
  }
  EXPECT_EQ(Hdf5Reader(in_folder("whole.h5")).int_attribute("/", "step"), 7);
}

TEST_F(Hdf5FileTest, WhatIsWrittenIsReadBack) {
  const std::string path = in_folder("a.h5");
  const std::string digest = write_sample(path);
  EXPECT_EQ(files(), 1) << "the temporary file must be gone";
  const Hdf5Reader reader(path);
  EXPECT_EQ(reader.digest(), digest);
  EXPECT_EQ(digest.size(), 32u);
  EXPECT_EQ(reader.string_attribute("/", "format"), "sample");
  EXPECT_EQ(reader.int_attribute("/", "step"), -12000);
  EXPECT_EQ(reader.double_attribute("/", "rate"), 0.1);
  EXPECT_EQ(reader.string_attribute("/model/zeta/weight", "note"), "größe");
  EXPECT_TRUE(reader.has_attribute("/", "step"));
  EXPECT_FALSE(reader.has_attribute("/", "stop"));
  EXPECT_FALSE(reader.has_attribute("/absent", "stop"));
  EXPECT_TRUE(reader.exists("/model/zeta/weight"));
  EXPECT_FALSE(reader.exists("/model/beta/weight"));
  EXPECT_EQ(reader.type("/tokens"), ElementType::kI32);
  EXPECT_EQ(reader.dimensions("/model/zeta/weight"), (std::vector<int64_t>{2, 3}));
  std::vector<float> weights(6);
  reader.read("/model/alpha/weight", ElementType::kF32, std::vector<int64_t>{2, 3}, weights.data());
  EXPECT_EQ(weights, (std::vector<float>{1.5f, -2.0f, 0.0f, 3.25f, 1e-30f, 6.0f}));
}

TEST_F(Hdf5FileTest, EveryElementTypeMakesTheRoundTrip) {
  const std::string path = in_folder("a.h5");
  const std::string bytes = "\x80\x3F\x7F\xFF\x02\x01\x0A\x80\x55\xAA\x33\xCC\x0F\xF0\xF1\xF2s";
  const int64_t two = 2;
  const int64_t none = 0;
  {
    Hdf5Writer writer(path);
    for (const ElementType type : kElementTypes)
      writer.write(std::string("/") + name_of(type), type, {&two, 1}, bytes.data());
    writer.write("/scalar", ElementType::kF64, {}, bytes.data());
    writer.write("/empty", ElementType::kU8, {&none, 1}, nullptr);
    writer.write_attribute("/u8", "nothing", "");
    writer.write_attribute("/u8", "long", std::string(100000, 'x'));
    writer.commit();
  }
  const Hdf5Reader reader(path);
  std::string read(bytes.size(), '\0');
  for (const ElementType type : kElementTypes) {
    const std::string name = std::string("/") + name_of(type);
    EXPECT_EQ(reader.type(name), type) << name;
    reader.read(name, type, {&two, 1}, read.data());
    EXPECT_EQ(read.substr(0, 2 * size_of(type)), bytes.substr(0, 2 * size_of(type))) << name;
  }
  reader.read("/scalar", ElementType::kF64, {}, read.data());
  EXPECT_EQ(read.substr(0, 8), bytes.substr(0, 8));
  EXPECT_EQ(reader.read_bytes("/u8"), (std::vector<uint8_t>{0x80, 0x3F}));
  EXPECT_TRUE(reader.read_bytes("/empty").empty());
  EXPECT_EQ(reader.string_attribute("/u8", "nothing"), "");
  EXPECT_EQ(reader.string_attribute("/u8", "long"), std::string(100000, 'x'));
}

TEST_F(Hdf5FileTest, AContiguousDatasetIsFoundAtItsFileOffset) {
  const std::string path = in_folder("a.h5");
  write_sample(path);
  const int64_t offset = Hdf5Reader(path).file_offset("/tokens");
  EXPECT_EQ(offset % 64, 0);
  int32_t tokens[5];
  std::memcpy(tokens, bytes_of(path).data() + offset, sizeof(tokens));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(tokens[i], i + 1);
  }
}

TEST_F(Hdf5FileTest, EqualContentGivesEqualBytes) {
  const auto write = [](const std::string& path) {
    Hdf5Writer writer(path);
    std::vector<double> values(1000);
    std::iota(values.begin(), values.end(), 0.5);
    const int64_t size = 1000;
    for (int i = 0; i < 60; ++i) {  // enough for the library's indexed groups
      writer.write(fmt::format("/group/{}/values", i), ElementType::kF64, {&size, 1}, values.data());
      writer.write_attribute("/group", fmt::format("attribute {}", i),
                             std::string(static_cast<size_t>(i), 'a'));
    }
    writer.commit();
    return writer.digest();
  };
  const std::string first = write(in_folder("first.h5"));
  const std::vector<char> disturbed_heap(1 << 20, 'z');
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a stored time would differ now
  const std::string second = write(in_folder("second.h5"));
  EXPECT_EQ(first, second);
  EXPECT_EQ(bytes_of(in_folder("first.h5")), bytes_of(in_folder("second.h5")));
}

TEST_F(Hdf5FileTest, AMissingFileAndAForeignFileAreTold) {
  message_of(ErrorKind::kMissingInput, [&] { const Hdf5Reader reader(in_folder("absent.h5")); });
  put("foreign", std::string(4096, 'a'));
  message_of(ErrorKind::kBadData, [&] { const Hdf5Reader reader(in_folder("foreign")); });
  message_of(ErrorKind::kBadData, [&] { const Hdf5Reader reader(folder_.string()); });
}

TEST_F(Hdf5FileTest, AnotherTypeOrShapeIsRefused) {
  const std::string path = in_folder("a.h5");
  write_sample(path);
  const Hdf5Reader reader(path);
  std::vector<float> buffer(6);
  const auto read = [&](ElementType type, std::vector<int64_t> shape) {
    return message_of(ErrorKind::kBadData,
                      [&] { reader.read("/model/zeta/weight", type, shape, buffer.data()); });
  };
  EXPECT_NE(read(ElementType::kF32, {3, 2}).find("[2, 3]"), std::string::npos);
  EXPECT_NE(read(ElementType::kI32, {2, 3}).find("f32"), std::string::npos);
  read(ElementType::kF32, {6});
  message_of(ErrorKind::kBadData, [&] { reader.int_attribute("/", "format"); });
  message_of(ErrorKind::kBadData, [&] { reader.string_attribute("/", "step"); });
  message_of(ErrorKind::kBadData, [&] { reader.double_attribute("/", "step"); });
  message_of(ErrorKind::kBadData, [&] { reader.read_bytes("/absent"); });
  message_of(ErrorKind::kBadData, [&] { reader.read_bytes("/tokens"); });
}

TEST_F(Hdf5FileTest, AHalfWrittenDatasetIsNotCommitted) {
  {
    Hdf5Writer writer(in_folder("a.h5"));
    const int32_t tokens[6] = {};
    writer.create("/tokens", ElementType::kI32, 5);
    writer.append("/tokens", tokens, 4);
    message_of(ErrorKind::kIo, [&] { writer.append("/tokens", tokens, 2); });
    message_of(ErrorKind::kIo, [&] { writer.commit(); });
  }
  EXPECT_EQ(files(), 0);
}

TEST_F(Hdf5FileTest, AFailedWriteLeavesTheOldFileInPlace) {
  const std::string path = in_folder("a.h5");
  const std::string digest = write_sample(path);
  { Hdf5Writer writer(path); }
  EXPECT_EQ(Hdf5Reader(path).digest(), digest);
}

TEST_F(Hdf5FileTest, AFolderThatIsNotThereCannotBeWrittenTo) {
  const std::string message =
      message_of(ErrorKind::kCannotCreate, [&] { Hdf5Writer writer(in_folder("absent/a.h5")); });
  EXPECT_NE(message.find("absent/a.h5"), std::string::npos);
  message_of(ErrorKind::kCannotCreate, [&] { Hdf5Writer writer(folder_.string()); });
}

// A limit on the size of files stands in for a full disk; in a child, since the limit is the process's.
TEST_F(Hdf5FileTest, AFullDiskIsAnErrorWithItsReasonAndLeavesNothing) {
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{600}, rlim_t{3000}, rlim_t{200000}}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit bound = {limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &bound);
      int code = 1;
      try {
        Hdf5Writer writer(in_folder("a.h5"));
        const std::vector<double> values(100000);
        const int64_t size = 100000;
        writer.write("/values", ElementType::kF64, {&size, 1}, values.data());
        writer.commit();
      } catch (const DataError& error) {
        const std::string text = error.what();
        code = error.kind() == ErrorKind::kIo && text.find("File too large") != std::string::npos ? 0 : 2;
        if (code == 2) {
          ::fprintf(stderr, "%s\n", error.what());
        }
      }
      ::_exit(code);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "limit " << limit;
    EXPECT_EQ(files(), 0) << "limit " << limit;
  }
}

TEST_F(Hdf5FileTest, TwoThreadsMayUseFilesAtOnce) {
  const std::string digest = write_sample(in_folder("reference.h5"));
  std::vector<std::thread> threads;
  std::vector<std::string> digests(4);
  for (size_t t = 0; t < digests.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::string path = in_folder(fmt::format("{}.h5", t));
        write_sample(path);
        digests[t] = Hdf5Reader(path).digest();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(digests, std::vector<std::string>(4, digest));
}

}  // namespace
}  // namespace ventris::data
