// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backend/device/error.h"
#include "comm/communicator.h"

namespace ventris::testing {

/// The ranks of a job as threads of one process, for control messages; sums are not theirs.
class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : barrier_(ranks), bytes_(static_cast<size_t>(ranks)) {}

  /// Calls `body` with the communicator of each rank on a thread of its own; returns what it threw by rank.
  std::vector<std::exception_ptr> run(const std::function<void(Communicator&)>& body) {
    std::vector<std::exception_ptr> errors(bytes_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < bytes_.size(); ++rank) {
      threads.emplace_back([this, &body, &errors, rank] {
        Rank communicator(*this, static_cast<int>(rank));
        try {
          body(communicator);
        } catch (...) {
          errors[rank] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

 private:
  class Rank : public Communicator {
   public:
    Rank(ThreadRanks& job, int rank) : job_(job), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(job_.bytes_.size()); }
    void all_reduce_sum(Tensor) override { VENTRIS_CHECK(false, "threads do not sum"); }
    void start_all_reduce_sum(Tensor) override { VENTRIS_CHECK(false, "threads do not sum"); }
    void start_tree_sum(const TreeSum&) override { VENTRIS_CHECK(false, "threads do not sum"); }
    void start_exchange(const TreeMessages&) override { VENTRIS_CHECK(false, "threads exchange no numbers"); }
    void progress() override {}
    void finish_reductions() override {}
    void barrier() override { job_.barrier_.arrive_and_wait(); }
    std::string broadcast(const std::string& bytes, int root) override {
      return all_gather(bytes)[static_cast<size_t>(root)];
    }
    std::vector<std::string> all_gather(const std::string& bytes) override {
      job_.bytes_[static_cast<size_t>(rank_)] = bytes;
      barrier();
      std::vector<std::string> all = job_.bytes_;
      barrier();
      return all;
    }

   private:
    ThreadRanks& job_;
    const int rank_;
  };

  std::barrier<> barrier_;
  std::vector<std::string> bytes_;  // by rank
};

}  // namespace ventris::testing
