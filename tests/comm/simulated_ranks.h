// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/device/error.h"
#include "backend/ops/add.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"

namespace ventris::testing {

/// The ranks of a job in one process, which carries their messages itself and counts them. They only sum:
/// each starts the same sums, and carry_out() then does the work of all of them.
class SimulatedRanks {
 public:
  explicit SimulatedRanks(int ranks) : sent_(static_cast<size_t>(ranks)) {
    for (int rank = 0; rank < ranks; ++rank) ranks_.push_back(std::make_unique<Rank>(rank, ranks));
  }

  Communicator& rank(size_t rank) { return *ranks_[rank]; }
  /// Bytes that each rank sent.
  const std::vector<int64_t>& sent() const { return sent_; }

  /// All ranks must have started their sums.
  void carry_out() {
    const size_t sums = ranks_[0]->sums.size();
    for (const auto& rank : ranks_) ASSERT_EQ(rank->sums.size(), sums);
    for (size_t sum = 0; sum < sums; ++sum) {
      carry(sum, 0);
      for (const auto& rank : ranks_) {
        const AddArgs args = additions_of_segment(rank->sums[sum]);
        if (!args.steps.empty()) add(*rank->sums[sum].context, args);
      }
      carry(sum, 1);
    }
    for (const auto& rank : ranks_) rank->sums.clear();
  }

 private:
  class Rank : public Communicator {
   public:
    Rank(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
    int rank() const override { return rank_; }
    int size() const override { return ranks_; }
    void start_tree_sum(const TreeSum& sum) override { sums.push_back(sum); }
    void progress() override {}
    void finish_reductions() override {}
    void all_reduce_sum(Tensor) override { refuse(); }
    void start_all_reduce_sum(Tensor) override { refuse(); }
    void start_exchange(const TreeMessages&) override { refuse(); }
    void barrier() override { refuse(); }
    std::string broadcast(const std::string&, int) override { refuse(); }
    std::vector<std::string> all_gather(const std::string&) override { refuse(); }

    std::vector<TreeSum> sums;

   private:
    [[noreturn]] static void refuse() {
      fail(ExitCode::kInternal, "simulated ranks only sum in the order of a tree");
    }
    const int rank_;
    const int ranks_;
  };

  static size_t bytes_of(const Tensor& data) {
    return static_cast<size_t>(data.size()) * size_of(data.dtype);
  }

  /// Each message that is received is the next of those sent between the two ranks.
  void carry(size_t sum, int round) {
    std::vector<TreeMessages> messages;
    for (const auto& rank : ranks_) messages.push_back(messages_of_round(rank->sums[sum], round));
    std::map<std::pair<size_t, size_t>, std::vector<std::vector<char>>> under_way;
    for (size_t from = 0; from < messages.size(); ++from) {
      for (const auto& [peer, data] : messages[from].sends) {
        const auto to = static_cast<size_t>(peer);
        const char* const bytes = static_cast<const char*>(data.data);
        under_way[{from, to}].emplace_back(bytes, bytes + bytes_of(data));
        sent_[from] += static_cast<int64_t>(bytes_of(data));
      }
    }
    for (size_t to = 0; to < messages.size(); ++to) {
      std::map<size_t, size_t> taken;
      for (const auto& [peer, data] : messages[to].receives) {
        const auto from = static_cast<size_t>(peer);
        const auto& sent = under_way[{from, to}];
        const size_t next = taken[from]++;
        ASSERT_LT(next, sent.size()) << from << " to " << to << " in round " << round;
        ASSERT_EQ(sent[next].size(), bytes_of(data)) << from << " to " << to << " in round " << round;
        std::memcpy(data.data, sent[next].data(), bytes_of(data));
      }
      for (size_t from = 0; from < messages.size(); ++from)
        ASSERT_EQ((under_way[{from, to}].size()), taken[from]) << from << " to " << to << ", round " << round;
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<int64_t> sent_;
};

}  // namespace ventris::testing
