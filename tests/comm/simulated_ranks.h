// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/add.h"
#include "backend/error.h"
#include "comm/communicator.h"
#include "comm/tree_sum.h"

namespace ventris::testing {

/// Bytes that a rank sent.
struct SentBytes {
  int64_t in_host = 0;
  int64_t between_hosts = 0;
};

/// The ranks of a job in one process, which carries their messages itself and counts them. They only sum:
/// each starts the same sums, and carry_out() then does the work of all of them.
class SimulatedRanks {
 public:
  /// Sums are laid out for ranks on `hosts`, and bytes counted for ranks on `counted_hosts`.
  SimulatedRanks(std::vector<int> hosts, std::vector<int> counted_hosts)
      : hosts_(std::move(hosts)), counted_hosts_(std::move(counted_hosts)), sent_(hosts_.size()) {
    for (size_t rank = 0; rank < hosts_.size(); ++rank)
      ranks_.push_back(std::make_unique<Rank>(*this, static_cast<int>(rank)));
  }
  explicit SimulatedRanks(const std::vector<int>& hosts) : SimulatedRanks(hosts, hosts) {}

  Communicator& rank(size_t rank) { return *ranks_[rank]; }
  const std::vector<SentBytes>& sent() const { return sent_; }
  /// The most calls of add() of a rank for one sum.
  size_t additions() const { return additions_; }

  /// All ranks must have started their sums.
  void carry_out() {
    const size_t sums = ranks_[0]->sums.size();
    for (const auto& rank : ranks_) ASSERT_EQ(rank->sums.size(), sums);
    for (size_t sum = 0; sum < sums; ++sum) {
      std::vector<size_t> additions(ranks_.size());
      for (int round = 0; round < kTreeRounds; ++round) {
        carry(sum, round);
        for (size_t rank = 0; rank < ranks_.size(); ++rank) {
          const TreeSum& of = ranks_[rank]->sums[sum];
          for (const AddArgs& args : additions_of_round(of, round)) {
            add(*of.context, args);
            ++additions[rank];
          }
          additions_ = std::max(additions_, additions[rank]);
        }
      }
    }
    for (const auto& rank : ranks_) rank->sums.clear();
  }

 private:
  class Rank : public Communicator {
   public:
    Rank(SimulatedRanks& job, int rank) : job_(job), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(job_.hosts_.size()); }
    std::vector<int> hosts() const override { return job_.hosts_; }
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
    SimulatedRanks& job_;
    const int rank_;
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
        const bool one_host = counted_hosts_[from] == counted_hosts_[to];
        (one_host ? sent_[from].in_host : sent_[from].between_hosts) += static_cast<int64_t>(bytes_of(data));
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

  const std::vector<int> hosts_;
  const std::vector<int> counted_hosts_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<SentBytes> sent_;
  size_t additions_ = 0;
};

}  // namespace ventris::testing
