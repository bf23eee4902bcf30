// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/launch.cuh"
#include "backend/device/context.h"
#include "backend/device/error.h"
#include "backend/device/step_graph.h"
#include "backend/device/transfer.h"
#include "comm/gradient_reducer.h"
#include "comm/nccl_library.h"
#include "comm/rank_device.h"
#include "comm/tree_reducer.h"
#include "tests/comm/emulated/device_ranks.h"
#include "tests/comm/rank_test.h"
#include "tests/emulation/controls.h"
#include "tests/support/tolerance.h"

namespace ventris {
namespace {

using testing::DeviceRow;
using testing::expect_error;
using testing::expect_sums;
using testing::numbers;
using testing::sums_by_mpi;
using testing::world;

using DeviceCommunicator = testing::DeviceRanks;

TEST_F(DeviceCommunicator, SumsAreThoseOfMpiAndHaveTheSameBitsOnEveryRank) {
  EXPECT_EQ(communicator().rank(), world().rank());
  EXPECT_EQ(communicator().size(), world().size());
  for (const size_t count : {1, 7, 1000, 40009}) {
    const auto singles = numbers<float>(count);
    DeviceRow<float> row(context(), singles);
    communicator().all_reduce_sum(row.view());
    const std::vector<float> got = row.get();
    expect_sums(got, sums_by_mpi(singles));
    const std::string bytes(reinterpret_cast<const char*>(got.data()), count * sizeof(float));
    for (const std::string& other : world().all_gather(bytes)) EXPECT_TRUE(other == bytes);

    const auto doubles = numbers<double>(count);
    DeviceRow<double> wide(context(), doubles);
    communicator().all_reduce_sum(wide.view());
    expect_sums(wide.get(), sums_by_mpi(doubles));
  }
}

TEST_F(DeviceCommunicator, BuffersOfGraphsAreNotRegistered) {
  EXPECT_FALSE(emulation::nccl_hooks().registers_graphs);
}

TEST_F(DeviceCommunicator, SumsAreCapturedInAGraphThatRunsAgainAndAgain) {
  auto values = numbers<float>(777);
  DeviceRow<float> row(context(), values);
  communicator().all_reduce_sum(row.view());  // as a first step does, outside of a graph
  synchronize(context());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
  row.enqueue_fill();
  communicator().start_all_reduce_sum(row.view().col_range(400, 377));
  communicator().start_all_reduce_sum(row.view().col_range(0, 400));
  communicator().finish_reductions();
  VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream(), &graph));
  VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int run = 0; run < 3; ++run) {
    values = numbers<float>(777, run);
    row.fill(values);
    VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream()));
    expect_sums(row.get(), sums_by_mpi(values));
  }
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
  VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
}

// A multiprocessor that becomes free is theirs first, also in a replayed step.
TEST_F(DeviceCommunicator, SumsHaveTheHighestPriorityAlsoInAGraph) {
  int least = 0;
  int greatest = 0;
  VENTRIS_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  ASSERT_LT(greatest, least);
  DeviceRow<float> row(context(), numbers<float>(100));
  StepGraph graph(context(), /*capture=*/true);
  for (int run = 0; run < 3; ++run) {
    emulation::nccl_hooks().priority = least;
    graph.run([&] { communicator().all_reduce_sum(row.view()); });
    synchronize(context());
    EXPECT_EQ(emulation::nccl_hooks().priority, greatest) << run;
  }
}

/// The numbers of a shard.
std::vector<float> shard_numbers(int64_t shard, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 1.0F / static_cast<float>(i % 1009 + 3 + static_cast<size_t>(7 * shard));
  return values;
}

// Ranks have one partial sum, several, or none; the third step replays a graph, as training does.
void expect_tree_sums_of_the_cpu(Context& context, Communicator& communicator, int64_t shards) {
  constexpr size_t kCount = 20'011;
  Context host({.threads = 1});
  const cudaStream_t stream = cuda::stream_of(context);
  const TreeNode share = share_of_rank(shards, world().rank(), world().size());
  std::vector<float> values(kCount);
  std::vector<double> losses(2);
  const auto count = static_cast<int64_t>(kCount);
  TreeReducer expected(host, world(), shards, {values.data(), 1, count, count, DType::kF32},
                       {losses.data(), 1, 2, 2, DType::kF64}, 32'000);
  DeviceRow<float> row(context, values);
  DeviceRow<double> loss_row(context, losses);
  TreeReducer reducer(context, communicator, shards, row.view(), loss_row.view(), 32'000, 9'001);
  cudaGraphExec_t exec = nullptr;
  for (int step = 0; step < 3; ++step) {
    values.assign(kCount, 0.0F);
    losses.assign(2, 0.0);
    row.fill(values);
    loss_row.fill(losses);
    synchronize(context);
    for (int64_t shard = share.begin; shard < share.end; ++shard) {
      std::ranges::copy(shard_numbers(shard + step, kCount), values.begin());  // which stay in their place
      losses = {0.1 * static_cast<double>(shard), 0.3 * static_cast<double>(step)};
      row.fill(values);
      loss_row.fill(losses);
      synchronize(context);
      if (shard + 1 == share.end) break;
      expected.set_aside(shard);
      reducer.set_aside(shard);
    }
    expected.loss_ready();
    expected.ready(0);
    expected.finish();
    if (step > 0 && exec == nullptr) {
      cudaGraph_t graph = nullptr;
      VENTRIS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      reducer.loss_ready();
      reducer.ready(0);
      reducer.finish();
      VENTRIS_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
      VENTRIS_CUDA_CHECK(cudaGraphInstantiate(&exec, graph, 0));
      VENTRIS_CUDA_CHECK(cudaGraphDestroy(graph));
    }
    if (step == 0) {
      reducer.loss_ready();
      reducer.ready(0);
      reducer.finish();
    } else {
      VENTRIS_CUDA_CHECK(cudaGraphLaunch(exec, stream));
    }
    EXPECT_TRUE(row.get() == values) << shards << " shards, step " << step;
    EXPECT_EQ(loss_row.get(), losses) << shards;
  }
  VENTRIS_CUDA_CHECK(cudaGraphExecDestroy(exec));
}

TEST_F(DeviceCommunicator, TreeSumsHaveTheBitsOfTheCpu) {
  for (const int64_t shards : {1, 4, 7, 8}) expect_tree_sums_of_the_cpu(context(), communicator(), shards);
}

TEST_F(DeviceCommunicator, TheHostDoesNotWaitForSums) {
  const auto values = numbers<float>(100);
  DeviceRow<float> row(context(), values);
  if (world().rank() != 0) world().barrier();
  communicator().all_reduce_sum(row.view());
  if (world().rank() == 0) world().barrier();  // the other ranks begin only now
  expect_sums(row.get(), sums_by_mpi(values));
}

TEST_F(DeviceCommunicator, ARankGetsSumsWhileTheHostsOfOthersWaitForIt) {
  const auto values = numbers<float>(100);
  DeviceRow<float> row(context(), values);
  communicator().all_reduce_sum(row.view());
  if (world().rank() == 0) synchronize(context());
  world().barrier();
  expect_sums(row.get(), sums_by_mpi(values));
}

TEST_F(DeviceCommunicator, OtherCollectivesAreThoseOfTheControl) {
  communicator().barrier();
  EXPECT_EQ(communicator().broadcast(world().rank() == 1 ? "one" : "", 1), "one");
  EXPECT_EQ(communicator().all_gather("x"),
            std::vector<std::string>(static_cast<size_t>(world().size()), "x"));
  EXPECT_EQ(communicator().gather("y", 0).size(),
            world().rank() == 0 ? static_cast<size_t>(world().size()) : 0U);
}

TEST_F(DeviceCommunicator, TheReducerRoundsBucketsToBf16OnTheDevice) {
  const auto values = numbers<float>(1003);
  DeviceRow<float> row(context(), values);
  GradientReducer reducer(context(), communicator(), row.view(), DType::kBF16, 200);
  const std::vector<float> expected = sums_by_mpi(values);
  for (int step = 0; step < 2; ++step) {
    row.fill(values);
    for (const int64_t begin : {900, 350, 349, 0}) reducer.ready(begin);
    reducer.finish();
    const std::vector<float> got = row.get();
    EXPECT_NE(got, expected);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(testing::close(got[i], expected[i], testing::tolerance_of(DType::kBF16)))
          << i << " " << got[i];
      ASSERT_EQ(got[i], static_cast<float>(BF16(got[i]))) << i;
    }
    const std::string bytes(reinterpret_cast<const char*>(got.data()), got.size() * sizeof(float));
    for (const std::string& other : world().all_gather(bytes)) EXPECT_TRUE(other == bytes);
  }
}

TEST_F(DeviceCommunicator, AnErrorOfTheDeviceEndsTheWaitOfEveryRankAndIsTold) {
  communicator_.reset();
  const int odd = world().size() - 1;
  if (world().rank() == odd) emulation::nccl_hooks().failing_sum = 2;
  communicator_ = make_device_communicator(world(), context());
  DeviceRow<float> row(context(), numbers<float>(50));
  communicator().all_reduce_sum(row.view());
  synchronize(context());
  EXPECT_NO_THROW(communicator().progress());
  world().barrier();  // no rank meets the error before
  const std::vector<std::string> says = {
      "rank " + std::to_string(world().rank()) + " of " + std::to_string(world().size()), "CUDA device",
      world().rank() == odd ? "system error" : "rank " + std::to_string(odd) + " has left"};
  // The other ranks may first see another one that left for the same reason.
  expect_error(ExitCode::kUnavailable,
               world().size() == 2 || world().rank() == odd ? says : std::vector{says[0]}, [&] {
                 communicator().all_reduce_sum(row.view());  // which a fast device's error may meet
                 synchronize(context());                     // would last for ever
                 communicator().progress();
               });
  expect_error(ExitCode::kUnavailable, {}, [&] { communicator().all_reduce_sum(row.view()); });
  expect_error(ExitCode::kUnavailable, {}, [&] { communicator().barrier(); });
}

TEST_F(DeviceCommunicator, ARankThatTakesNoPartInASumIsNamedWithItsHostAndProcess) {
  communicator_.reset();
  const int absent = world().size() / 2;
  const std::vector<std::string> pids = world().all_gather(std::to_string(::getpid()));
  // A rank without a limit takes no notice of a roll call.
  if (world().rank() != absent) world().limit_waits(2);
  communicator_ = make_device_communicator(world(), context());
  DeviceRow<float> row(context(), numbers<float>(50));
  world().set_step(12);
  if (world().rank() != absent) {
    const std::string name = "rank " + std::to_string(absent) + " on " + testing::environment().host() +
                             " (pid " + pids[static_cast<size_t>(absent)] + "), which did not arrive";
    try {
      communicator().all_reduce_sum(row.view());
      communicator().progress();
      synchronize(context());  // until the sum is given up
      communicator().progress();
      ADD_FAILURE() << "no error";
    } catch (const LateRanks& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(name), std::string::npos) << message;
      // Another rank that gives up first leaves, which the device of this one may see before its own limit.
      if (message.find("has left") == std::string::npos) {
        EXPECT_NE(message.find("between the CUDA devices at step 12 for " + name), std::string::npos)
            << message;
      }
    }
  }
  world().limit_waits(0);
  world().set_step(0);
  world().barrier();
}

TEST_F(DeviceCommunicator, ARankThatLeavesAbandonsItsSums) {
  DeviceRow<float> row(context(), numbers<float>(50));
  if (world().rank() == 0) {
    communicator().all_reduce_sum(row.view());  // in which no other rank takes part
    communicator().abandon();
    synchronize(context());
    expect_error(ExitCode::kUnavailable, {"abandoned"}, [&] { communicator().progress(); });
  }
  world().barrier();
}

TEST_F(DeviceCommunicator, RanksWithAnotherVersionDisagree) {
  if (world().rank() == 1) emulation::nccl_hooks().version = 22703;
  expect_error(ExitCode::kRanksDisagree, {"NCCL", "rank 1", "2.27.3", "2.28.9"},
               [&] { make_device_communicator(world(), context()); });
}

TEST_F(DeviceCommunicator, MoreRanksThanDevicesAreToldWithBothNumbers) {
  emulation::machine().devices = 1;
  const std::string reason = find_rank_device(world(), testing::environment()).reason;
  for (const std::string& part : {std::string("ranks 0 and 1"), testing::environment().host(),
                                  std::to_string(world().size()) + " ranks", std::string("1 CUDA device ")})
    EXPECT_NE(reason.find(part), std::string::npos) << part << ": " << reason;
}

TEST_F(DeviceCommunicator, ARankWithoutADeviceIsNamedOnEveryRank) {
  if (world().rank() == 1) emulation::machine().devices = 0;
  const std::string reason = find_rank_device(world(), testing::environment()).reason;
  EXPECT_NE(reason.find("rank 1 on " + testing::environment().host()), std::string::npos) << reason;
  for (const std::string& other : world().all_gather(reason)) EXPECT_EQ(other, reason);
}

TEST(DeviceCommunicatorOfOne, TheControlServesOneRankAndTheCpu) {
  emulation::machine().devices = 1;
  Context device({.device = Device::kCuda, .scratch_bytes = 1 << 20});
  EXPECT_EQ(make_device_communicator(*make_self_communicator(), device), nullptr);
  Context host({.scratch_bytes = 1 << 20});
  EXPECT_EQ(make_device_communicator(world(), host), nullptr);
  EXPECT_EQ(nccl_library(), "2.28.9");
}

}  // namespace
}  // namespace ventris
