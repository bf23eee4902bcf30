// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"

namespace ventris::testing {

/// A communicator whose ranks are on other hosts, as far as it says.
class PretendedHosts : public Communicator {
 public:
  PretendedHosts(Communicator& communicator, std::vector<int> hosts)
      : communicator_(communicator), hosts_(std::move(hosts)) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::vector<int> hosts() const override { return hosts_; }
  int64_t bucket_bytes() const override { return communicator_.bucket_bytes(); }
  void all_reduce_sum(Tensor data) override { communicator_.all_reduce_sum(data); }
  void start_all_reduce_sum(Tensor data) override { communicator_.start_all_reduce_sum(data); }
  void start_tree_sum(const TreeSum& sum) override { communicator_.start_tree_sum(sum); }
  void start_exchange(const TreeMessages& messages) override { communicator_.start_exchange(messages); }
  void progress() override { communicator_.progress(); }
  void finish_reductions() override { communicator_.finish_reductions(); }
  void barrier() override { communicator_.barrier(); }
  std::string broadcast(const std::string& bytes, int root) override {
    return communicator_.broadcast(bytes, root);
  }
  std::vector<std::string> all_gather(const std::string& bytes) override {
    return communicator_.all_gather(bytes);
  }

 private:
  Communicator& communicator_;
  const std::vector<int> hosts_;
};

/// Hosts of `ranks` ranks: one; of two consecutive ranks; with ranks in turn; of unequal sizes; all alone.
inline std::vector<std::vector<int>> some_hosts(int ranks) {
  std::vector<std::vector<int>> all(5);
  for (int rank = 0; rank < ranks; ++rank) {
    all[0].push_back(7);
    all[1].push_back(rank / 2);
    all[2].push_back(rank % 2);
    all[3].push_back(rank + 1 == ranks ? 1 : 0);
    all[4].push_back(ranks - rank);
  }
  return all;
}

}  // namespace ventris::testing
