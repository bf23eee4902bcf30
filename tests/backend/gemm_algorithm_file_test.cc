// SPDX-License-Identifier: Apache-2.0
#include "backend/gemm_algorithm_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace ventris {
namespace {

class GemmAlgorithms : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(parent_); }
  const std::string parent_ = ::testing::TempDir() + "ventris-algorithms-" + std::to_string(getpid());
  const std::string folder_ = parent_ + "/new";
};

const GemmAlgorithm kOne = {1, 2, 3, 4, 5, 6, 7, 0xFEDCBA9876543210U};
const GemmAlgorithm kOther = {9, 9, 9, 9, 9, 9, 9, 9};

TEST_F(GemmAlgorithms, AreFoundByALaterRun) {
  GemmAlgorithmFile first(folder_, "a device, version 1");
  EXPECT_FALSE(first.find("shape"));
  EXPECT_EQ(first.add("shape", kOne), kOne);
  const GemmAlgorithmFile second(folder_, "a device, version 1");
  EXPECT_EQ(second.find("shape"), kOne);
  EXPECT_FALSE(second.find("another shape"));
}

TEST_F(GemmAlgorithms, OfProcessesThatChooseAtOnceTheFirstDecides) {
  GemmAlgorithmFile first(folder_, "device");
  GemmAlgorithmFile second(folder_, "device");
  EXPECT_EQ(first.add("shape", kOne), kOne);
  EXPECT_EQ(second.add("shape", kOther), kOne);
  EXPECT_EQ(second.add("another shape", kOther), kOther);
  EXPECT_EQ(first.add("another shape", kOne), kOther);
  const GemmAlgorithmFile third(folder_, "device");
  EXPECT_EQ(third.find("shape"), kOne);
  EXPECT_EQ(third.find("another shape"), kOther);
}

TEST_F(GemmAlgorithms, OfAForgottenFileAreNotFoundButThoseOfATextAre) {
  GemmAlgorithmFile(folder_, "device").add("shape", kOne);
  GemmAlgorithmFile file(folder_, "device");
  EXPECT_TRUE(file.take(file.text_of({{"another shape", kOther}})));
  file.forget_file();
  EXPECT_FALSE(file.find("shape"));
  EXPECT_EQ(file.find("another shape"), kOther);
}

TEST_F(GemmAlgorithms, OfAnotherVersionAreNotTaken) {
  GemmAlgorithmFile first(folder_, "device 1");
  first.add("shape", kOne);
  EXPECT_FALSE(GemmAlgorithmFile(folder_, "device 2").find("shape"));
  // Identities whose names of files are equal.
  GemmAlgorithmFile dashed(folder_, "device-1");
  EXPECT_EQ(dashed.path(), first.path());
  EXPECT_FALSE(dashed.find("shape"));
}

TEST_F(GemmAlgorithms, DamagedLinesAreSkippedAndTheOthersKept) {
  GemmAlgorithmFile first(folder_, "device");
  first.add("a", kOne);
  first.add("b", kOther);
  std::ifstream in(first.path());
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t line = text.find("\na\t");
  ASSERT_NE(line, std::string::npos);
  text[line + 20] = text[line + 20] == '0' ? '1' : '0';
  std::ofstream(first.path(), std::ios::trunc) << text;
  const GemmAlgorithmFile second(folder_, "device");
  EXPECT_FALSE(second.find("a"));
  EXPECT_EQ(second.find("b"), kOther);
}

TEST_F(GemmAlgorithms, WithoutAFolderAreKeptInMemory) {
  GemmAlgorithmFile file("", "device");
  EXPECT_EQ(file.add("shape", kOne), kOne);
  EXPECT_EQ(file.find("shape"), kOne);
}

}  // namespace
}  // namespace ventris
