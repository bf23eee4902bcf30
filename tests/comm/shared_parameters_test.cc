// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "backend/device/error.h"
#include "comm/tree_sum.h"
#include "tests/comm/rank_test.h"
#include "tests/support/tiny_run.h"

namespace ventris {
namespace {

using testing::world;

/// The ranks of the job, one of which receives a wrong bit with the parameters of a step.
class WrongBit : public Communicator {
 public:
  WrongBit(int rank, int step) : rank_(rank), step_(step) {}
  int rank() const override { return world().rank(); }
  int size() const override { return world().size(); }
  void all_reduce_sum(Tensor data) override { world().all_reduce_sum(data); }
  void start_all_reduce_sum(Tensor data) override { world().start_all_reduce_sum(data); }
  void start_tree_sum(const TreeSum& sum) override { world().start_tree_sum(sum); }
  void start_exchange(const TreeMessages& messages) override {
    if (rank() == rank_ && step() == step_ && !messages.receives.empty())
      received_ = messages.receives.front().data;
    world().start_exchange(messages);
  }
  void progress() override { world().progress(); }
  void finish_reductions() override {
    world().finish_reductions();
    if (received_) static_cast<unsigned char*>(received_->data)[0] ^= 1U;
    received_.reset();
  }
  void barrier() override { world().barrier(); }
  std::string broadcast(const std::string& bytes, int root) override {
    return world().broadcast(bytes, root);
  }
  std::vector<std::string> all_gather(const std::string& bytes) override { return world().all_gather(bytes); }

 private:
  const int rank_;
  const int step_;
  std::optional<Tensor> received_;
};

class SharedParameters : public ::testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(Precisions, SharedParameters, ::testing::Values(Precision::kF32, Precision::kBF16));

TEST_P(SharedParameters, AreComparedWithWhatTheRanksComputeWith) {
  if (world().size() == 1) GTEST_SKIP() << "one rank receives nothing";
  std::optional<testing::TemporaryFolder> folder;
  if (world().rank() == 0) {
    folder.emplace();
    testing::make_tiny_corpus(*folder);
  }
  const std::string path = world().broadcast(folder ? *folder / "" : "", 0);
  TrainOptions run = testing::tiny_run_options(path + "corpus.h5", path + "run");
  run.model.d_model = 96;  // several units of a share
  run.model.d_ff = 128;
  run.precision = GetParam();
  run.shard_optimizer = true;
  run.save_every = 3;  // saves compare the ranks
  Context context({.threads = 1});
  const auto message_of = [&](int step) -> std::string {
    try {
      WrongBit ranks(1, step);
      train(context, ranks, run, "rank test");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRanksDisagree);
      return error.what();
    }
    return "";
  };
  const std::string message = message_of(6);
  const std::string part = GetParam() == Precision::kBF16 ? "parameters in bf16" : "parameters";
  EXPECT_NE(message.find("after step 6"), std::string::npos) << message;
  EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_NE(message.find("rank 1 on"), std::string::npos) << message;
  run.model_dir = path + "mended";
  EXPECT_EQ(message_of(5), "") << "the next step sends them again";
  world().barrier();
}

}  // namespace
}  // namespace ventris
