// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/tree_plan.h"

namespace ventris {

/// Who adds what in a sum over the ranks in the order of a tree. Each rank owns a segment of the elements:
/// it has their sum first. The ranks of a host add among themselves what they can: each gathers a slice of
/// the elements, of which its own segment is a part, and a share of the segment of every rank of another
/// host. So only the nodes that remain of a host's terms go to other hosts, and each once. If the ranks of a
/// host are consecutive and their terms a node of the tree, that is one node.
///
/// The slices of a host are equal, and so are the shares of what goes to another host. If all hosts have
/// equally many ranks, a rank sends what is in its slice to the ranks of its own number on the other hosts,
/// and to no other.
class TreeLayout {
 public:
  /// Rank r has the sums of the nodes of its share_of_rank() and is on host hosts[r], of any numbers.
  TreeLayout(int64_t terms, int rank, const std::vector<int>& hosts);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(hosts_.size()); }
  /// Of a rank, numbered in the order of their first ranks.
  int host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  /// The ranks of each host, rising.
  const std::vector<std::vector<int>>& members() const { return members_; }
  /// The place of a rank's segment among those of all ranks, if any order will do: the slice of a rank is
  /// then one range of elements if all hosts have equally many ranks.
  int place_of(int rank) const { return places_[static_cast<size_t>(rank)]; }
  /// The elements of the segment of `owner` that `gatherer` gathers for its host: all, if they are the same.
  TreeNode gathered(TreeNode segment, int owner, int gatherer) const;

  /// Partial sums, and their additions.
  struct Level {
    std::vector<int> holders;  // the rank, or the host, of each
    TreeAdditions additions;
    /// Of holders other than `own`.
    int others(int own) const;
  };
  const Level& in_host() const { return in_host_; }
  const Level& between_hosts() const { return between_hosts_; }

 private:
  const int rank_;
  std::vector<int> hosts_;
  std::vector<std::vector<int>> members_;
  std::vector<int> numbers_;  // of each rank among those of its host
  std::vector<int> places_;
  Level in_host_;
  Level between_hosts_;
};

/// The hosts of ranks of which `ranks_per_host` consecutive ones share one, for a TreeLayout.
std::vector<int> consecutive_hosts(int ranks, int ranks_per_host);

/// The greatest number of partial sums of a host that go to other hosts; 0 if there is one host.
int partial_sums_of_a_host(int64_t terms, const std::vector<int>& hosts);

/// What it costs that the ranks of a host are not consecutive, and what to do, in words; "" if nothing.
std::string cost_of_placement(int64_t terms, const std::vector<int>& hosts);

}  // namespace ventris
