// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "data/error.h"
#include "data/text/text_reader.h"
#include "tests/support/source_dir.h"

namespace ventris::data {

/// A test with a folder of its own that goes away with it.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "ventris-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }
  int files() const {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }
  /// Writes a file and returns its path.
  std::string put(const std::string& name, const std::string& bytes) const {
    std::ofstream(in_folder(name), std::ios::binary | std::ios::trunc) << bytes;
    return in_folder(name);
  }
  std::string put_gzip(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen(in_folder(name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
    return in_folder(name);
  }

  std::filesystem::path folder_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::vector<std::string> lines_of(const std::string& path, size_t max = SIZE_MAX) {
  TextReader reader(path);
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < max && reader.next(line)) {
    lines.push_back(line);
  }
  return lines;
}

/// Expects a DataError of this kind and returns its message.
template <typename Call>
std::string message_of(ErrorKind kind, const Call& call) {
  try {
    call();
  } catch (const DataError& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The folder with the data that tests share with other programs; a test skips where it is absent.
inline std::string shared_data(const std::string& path) {
  const char* const folder = std::getenv("VENTRIS_SHARED_DATA");
  return (folder != nullptr ? std::string(folder) : testing::source_dir() + "/../shared/data") + "/" + path;
}

#define VENTRIS_NEEDS_SHARED_DATA(path)                             \
  if (!std::filesystem::exists(ventris::data::shared_data(path))) { \
    GTEST_SKIP() << "the shared data folder has no " << (path);     \
  }

}  // namespace ventris::data
