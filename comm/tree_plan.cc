// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_plan.h"

#include <algorithm>
#include <bit>

#include "backend/device/error.h"

namespace ventris {
namespace {

/// The first part of the sum of which `node` is the second part; empty if it is not a second part.
TreeNode part_before(int64_t terms, TreeNode node) {
  VENTRIS_CHECK(0 <= node.begin && node.begin < node.end && node.end <= terms,
                "{} to {} of {} terms are not a node", node.begin, node.end, terms);
  TreeNode within = {0, terms};
  TreeNode before;
  while (within != node) {
    VENTRIS_CHECK(within.size() > 1, "the terms from {} to {} are not a node", node.begin, node.end);
    const int64_t middle =
        within.begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(within.size() - 1)));
    before = node.begin >= middle ? TreeNode{within.begin, middle} : TreeNode{};
    within = node.begin >= middle ? TreeNode{middle, within.end} : TreeNode{within.begin, middle};
  }
  return before;
}

std::vector<TreeNode> single_terms(TreeNode share) {
  std::vector<TreeNode> nodes;
  for (int64_t term = share.begin; term < share.end; ++term) nodes.push_back({term, term + 1});
  return nodes;
}

}  // namespace

TreeAdditions::TreeAdditions(int64_t terms, const std::vector<TreeNode>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    VENTRIS_CHECK(i == 0 || given[i - 1].end <= given[i].begin, "node {} to {} is not after that to {}",
                  given[i].begin, given[i].end, i == 0 ? 0 : given[i - 1].end);
    TreeNode node = given[i];
    after.push_back(0);
    for (TreeNode before = part_before(terms, node); !nodes.empty() && nodes.back() == before;
         before = part_before(terms, node)) {
      node.begin = before.begin;
      nodes.pop_back();
      ++after.back();
    }
    nodes.push_back(node);
  }
}

TreeShare::TreeShare(int64_t terms, TreeNode share) : share_(share), additions_(terms, single_terms(share)) {
  VENTRIS_CHECK(0 <= share.begin && share.begin <= share.end && share.end <= terms,
                "terms {} to {} of {} are not a share", share.begin, share.end, terms);
  int stacked = 0;
  for (const int additions : additions_.after) {
    stacked_.push_back(stacked);
    stack_size_ = std::max(stack_size_, stacked);
    stacked += 1 - additions;
  }
}

TreeNode share_of_rank(int64_t terms, int rank, int ranks) {
  return {rank * terms / ranks, (rank + 1) * terms / ranks};
}

}  // namespace ventris
