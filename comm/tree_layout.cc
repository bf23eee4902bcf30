// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "backend/error.h"

namespace ventris {
namespace {

constexpr int64_t kPieceUnit = 16;  // elements of whole vectors

struct HeldNode {
  TreeNode node;
  int holder;
};

/// The partial sums that ranks have, in the order of terms.
std::vector<HeldNode> nodes_of_ranks(int64_t terms, int ranks, const std::vector<int>& of) {
  std::vector<HeldNode> held;
  for (const int rank : of) {
    const TreeShare share(terms, share_of_rank(terms, rank, ranks));
    for (const TreeNode& node : share.nodes()) held.push_back({node, rank});
  }
  return held;
}

TreeLayout::Level level_of(int64_t terms, const std::vector<HeldNode>& held) {
  std::vector<int> holders;
  std::vector<TreeNode> nodes;
  for (const HeldNode& one : held) {
    holders.push_back(one.holder);
    nodes.push_back(one.node);
  }
  return {.holders = holders, .additions = TreeAdditions(terms, nodes)};
}

/// Numbers from 0 in the order of first ranks.
std::vector<int> numbered(const std::vector<int>& hosts) {
  std::vector<int> seen;
  std::vector<int> numbers;
  for (const int host : hosts) {
    const auto found = std::find(seen.begin(), seen.end(), host);
    numbers.push_back(static_cast<int>(found - seen.begin()));
    if (found == seen.end()) seen.push_back(host);
  }
  return numbers;
}

std::vector<std::vector<int>> members_of(const std::vector<int>& numbered_hosts) {
  std::vector<std::vector<int>> members;
  for (size_t rank = 0; rank < numbered_hosts.size(); ++rank) {
    const auto host = static_cast<size_t>(numbered_hosts[rank]);
    members.resize(std::max(members.size(), host + 1));
    members[host].push_back(static_cast<int>(rank));
  }
  return members;
}

/// The nodes that remain of the terms of each host, in the order of terms.
std::vector<HeldNode> nodes_of_hosts(int64_t terms, const std::vector<std::vector<int>>& members, int ranks) {
  std::vector<HeldNode> held;
  for (size_t host = 0; host < members.size(); ++host) {
    const TreeLayout::Level level = level_of(terms, nodes_of_ranks(terms, ranks, members[host]));
    for (const TreeNode& node : level.additions.nodes) held.push_back({node, static_cast<int>(host)});
  }
  std::sort(held.begin(), held.end(),
            [](const HeldNode& a, const HeldNode& b) { return a.node.begin < b.node.begin; });
  return held;
}

}  // namespace

TreeLayout::TreeLayout(int64_t terms, int rank, const std::vector<int>& hosts)
    : rank_(rank),
      hosts_(numbered(hosts)),
      members_(members_of(hosts_)),
      numbers_(hosts.size()),
      places_(hosts.size()),
      in_host_(level_of(
          terms, nodes_of_ranks(terms, ranks(),
                                members_.at(static_cast<size_t>(hosts_.at(static_cast<size_t>(rank))))))),
      between_hosts_(level_of(terms, nodes_of_hosts(terms, members_, ranks()))) {
  VENTRIS_CHECK(between_hosts_.additions.nodes == (std::vector<TreeNode>{{0, terms}}),
                "{} ranks do not have {} terms", ranks(), terms);
  for (const std::vector<int>& of_host : members_) {
    for (size_t number = 0; number < of_host.size(); ++number)
      numbers_[static_cast<size_t>(of_host[number])] = static_cast<int>(number);
  }
  // Hosts in turn: by the part of the host's ranks that are before one.
  std::vector<int> order(hosts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto part = [&](int r) {
    const auto of = std::ssize(members_[static_cast<size_t>(host_of(r))]);
    return std::pair{static_cast<int64_t>(numbers_[static_cast<size_t>(r)]), static_cast<int64_t>(of)};
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    const auto [number_a, of_a] = part(a);
    const auto [number_b, of_b] = part(b);
    const int64_t left = number_a * of_b;
    const int64_t right = number_b * of_a;
    return left != right ? left < right : host_of(a) < host_of(b);
  });
  for (size_t place = 0; place < order.size(); ++place)
    places_[static_cast<size_t>(order[place])] = static_cast<int>(place);
}

/// Of the segments of the owner's host, one after the other, the gatherer takes its part among its own host.
TreeNode TreeLayout::gathered(TreeNode segment, int owner, int gatherer) const {
  const auto of = [this](int rank) {
    return static_cast<int64_t>(members_[static_cast<size_t>(host_of(rank))].size());
  };
  const int64_t first = numbers_[static_cast<size_t>(gatherer)] * of(owner) -
                        numbers_[static_cast<size_t>(owner)] * of(gatherer);
  const auto cut = [&](int64_t position) {
    if (position >= of(gatherer)) return segment.end;
    const int64_t before = std::max<int64_t>(position, 0) * segment.size() / of(gatherer);
    return segment.begin + before / kPieceUnit * kPieceUnit;
  };
  return {cut(first), cut(first + of(owner))};
}

int TreeLayout::Level::others(int own) const {
  return static_cast<int>(std::count_if(holders.begin(), holders.end(), [=](int h) { return h != own; }));
}

std::vector<int> consecutive_hosts(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return hosts;
}

int partial_sums_of_a_host(int64_t terms, const std::vector<int>& hosts) {
  const std::vector<std::vector<int>> members = members_of(numbered(hosts));
  if (members.size() == 1) return 0;
  std::vector<int> sums(members.size());
  for (const HeldNode& held : nodes_of_hosts(terms, members, static_cast<int>(hosts.size())))
    ++sums[static_cast<size_t>(held.holder)];
  return *std::max_element(sums.begin(), sums.end());
}

std::string cost_of_placement(int64_t terms, const std::vector<int>& hosts) {
  std::vector<int> consecutive = numbered(hosts);
  std::sort(consecutive.begin(), consecutive.end());
  const int sums = partial_sums_of_a_host(terms, hosts);
  const int least = partial_sums_of_a_host(terms, consecutive);
  if (sums <= least) return "";
  return fmt::format(
      "the ranks of a host are not consecutive, so that up to {} partial sums of a host go to others, and not "
      "{}. The result is the same; to send less, start the ranks host by host, e.g. mpirun --map-by slot",
      sums, least);
}

}  // namespace ventris
