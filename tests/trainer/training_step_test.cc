// SPDX-License-Identifier: Apache-2.0
#include "trainer/training_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "comm/tree_sum.h"
#include "tests/trainer/training_fixture.h"

namespace ventris {
namespace {

/// One rank that notes which sums are started, in order.
class NotingCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce_sum(Tensor) override {}
  void start_all_reduce_sum(Tensor data) override { note(data); }
  void start_tree_sum(const TreeSum& sum) override { note(sum.result); }
  void start_exchange(const TreeMessages&) override {}
  void progress() override {}
  void finish_reductions() override {
    if (started_.empty()) return;
    EXPECT_EQ(loss_.as<double>()[0], loss_at_start_) << "the loss changed after its sum was started";
    steps_.push_back(started_);
    started_.clear();
  }
  void barrier() override {}
  std::string broadcast(const std::string& bytes, int) override { return bytes; }
  std::vector<std::string> all_gather(const std::string& bytes) override { return {bytes}; }

  const std::vector<std::vector<std::string>>& steps() const { return steps_; }

 private:
  void note(Tensor data) {
    started_.emplace_back(data.dtype == DType::kF64 ? "loss" : "gradients");
    if (data.dtype != DType::kF64) return;
    loss_ = data;
    loss_at_start_ = data.as<double>()[0];
    EXPECT_GT(loss_at_start_, 0.0);
  }

  std::vector<std::string> started_;
  std::vector<std::vector<std::string>> steps_;
  Tensor loss_;
  double loss_at_start_ = 0.0;
};

TEST(TrainingStep, SumsTheLossOverTheRanksBeforeBackward) {
  for (const Reduction reduction : {Reduction::kFast, Reduction::kReproducible}) {
    const testing::TemporaryFolder folder;
    TrainOptions run = testing::tiny_run_options(testing::tiny_corpus(), folder / "run");
    run.reduction = reduction;
    run.logical_shards = 3;
    run.max_steps = 2;
    Context context({.threads = 1});
    NotingCommunicator noting;
    train(context, noting, run, "test");
    const std::vector<std::string> order = {"loss", "gradients"};
    EXPECT_EQ(noting.steps(), (std::vector<std::vector<std::string>>{order, order}));
  }
}

}  // namespace
}  // namespace ventris
