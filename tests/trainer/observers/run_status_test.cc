// SPDX-License-Identifier: Apache-2.0
#include "trainer/observers/run_status.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/io/json_text.h"
#include "tests/support/tiny_run.h"

namespace ventris {
namespace {

using testing::TemporaryFolder;

nlohmann::json status_of(const std::string& folder) {
  std::ifstream file(folder + "/status.json");
  return data::read_json(std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST(RunStatus, NothingIsWrittenBeforeTheRunBegins) {
  const TemporaryFolder folder;
  RunStatus status;
  status.on_save({5, "checkpoint-00000005.h5"});
  status.end(64, "no such option");
  EXPECT_FALSE(read_status(folder / ""));
}

TEST(RunStatus, TellsWhereTheRunIsAndHowItEnded) {
  const TemporaryFolder folder;
  RunStatus status;
  status.on_start({.model_dir = folder / "", .host = "node7", .rank = 0, .ranks = 4, .step = 3});
  nlohmann::json json = status_of(folder / "");
  EXPECT_EQ(json["state"], "running");
  EXPECT_TRUE(json["exit_code"].is_null() && json["retryable"].is_null() && json["ended"].is_null());
  EXPECT_EQ(json["pid"], ::getpid());
  EXPECT_EQ(json["host"], "node7");
  EXPECT_EQ(json["ranks"], 4);

  status.on_save({8, (folder / "checkpoint-00000008.h5")});
  EXPECT_EQ(read_status(folder / "")->saved_step(), 8);
  status.on_step(9);
  status.end(74, "the disk is full \xff");
  json = status_of(folder / "");
  EXPECT_EQ(json["state"], "failed");
  EXPECT_EQ(json["exit_code"], 74);
  EXPECT_EQ(json["retryable"], true);
  EXPECT_EQ(json["step"], 9);
  EXPECT_EQ(json["last_checkpoint"], (folder / "checkpoint-00000008.h5"));
  const std::string ended = json["ended"];
  ASSERT_EQ(ended.size(), std::string("2026-01-31T23:59:59.999Z").size()) << ended;
  EXPECT_GE(ended, json["started"].get<std::string>());
}

TEST(RunStatus, NothingIsWrittenIntoAFolderThatTookThePlaceOfTheFirst) {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directory(run);
  const data::FolderLock lock(run);
  RunStatus status;
  status.on_start({.model_dir = run, .host = "a", .rank = 0, .ranks = 1, .step = 0});
  std::filesystem::rename(run, folder / "moved");
  std::filesystem::create_directory(run);
  const data::FolderLock other(run);
  status.on_save({8, "checkpoint-00000008.h5"});
  status.end(74, "the folder was moved");
  EXPECT_FALSE(read_status(run));
  EXPECT_EQ(read_status(folder / "moved")->state, "running");
}

TEST(RunStatus, OnlyTheFirstRankWritesBeforeTheEnd) {
  const TemporaryFolder folder;
  RunStatus status;
  status.on_start({.model_dir = folder / "", .host = "b", .rank = 2, .ranks = 4, .step = 0});
  status.on_save({8, "checkpoint-00000008.h5"});
  EXPECT_FALSE(read_status(folder / ""));
  status.end(69, "lost");
  EXPECT_EQ(read_status(folder / "")->rank, 2);
}

TEST(RunStatus, AFolderThatIsGoneIsNoFailure) {
  RunStatus status;
  status.on_start({.model_dir = "/nonexistent/folder", .host = "a", .rank = 0, .ranks = 1, .step = 0});
  status.end(0, "trained");
  EXPECT_FALSE(read_status("/nonexistent/folder"));
}

TEST(RunStatus, AFileThatIsNoStatusIsPassedOver) {
  const TemporaryFolder folder;
  for (const char* text : {"", "{", "[]", "{\"state\": 5}", "\"running\""}) {
    std::ofstream((folder / "status.json")) << text;
    EXPECT_FALSE(read_status(folder / "")) << text;
  }
}

TEST(RunStatus, CodesThatAreWorthARestart) {
  for (const int code : {69, 74, 75, 128 + 9, 128 + 11})
    EXPECT_TRUE(is_worth_restarting(code, false)) << code;
  for (const int code : {0, 1, 64, 65, 66, 70, 73, 77, 78, 127})
    EXPECT_FALSE(is_worth_restarting(code, true)) << code;
  EXPECT_FALSE(is_worth_restarting(76, /*begun=*/false));
  EXPECT_TRUE(is_worth_restarting(76, /*begun=*/true));
}

}  // namespace
}  // namespace ventris
