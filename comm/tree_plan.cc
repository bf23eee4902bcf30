#include "comm/tree_plan.h"

#include <algorithm>
#include <bit>

#include "backend/error.h"

namespace ventris {
namespace {

/// The position at which a node of two or more terms is split.
int64_t middle_of(TreeNode node) {
  return node.begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(node.size() - 1)));
}

/// The position of the sum of `node` after `additions`.
int add_up(TreeNode node, const std::vector<TreeNode>& nodes, std::vector<TreeAddition>& additions) {
  const auto first = std::lower_bound(nodes.begin(), nodes.end(), node.begin,
                                      [](TreeNode one, int64_t begin) { return one.begin < begin; });
  VENTRIS_CHECK(first != nodes.end() && first->begin == node.begin && first->end <= node.end,
                "the terms from {} to {} are not whole nodes", node.begin, node.end);
  const auto position = static_cast<int>(first - nodes.begin());
  if (first->end == node.end) return position;
  const int64_t middle = middle_of(node);
  const int left = add_up({node.begin, middle}, nodes, additions);
  const int right = add_up({middle, node.end}, nodes, additions);
  additions.push_back({left, right});
  return left;
}

}  // namespace

TreeShare::TreeShare(int64_t terms, TreeNode share) : share_(share) {
  VENTRIS_CHECK(0 <= share.begin && share.begin <= share.end && share.end <= terms,
                "terms {} to {} of {} are not a share", share.begin, share.end, terms);
  if (share.size() == 0) return;
  additions_.resize(static_cast<size_t>(share.size()));
  count({0, terms});
  for (int64_t term = share.begin; term < share.end; ++term) {
    stacked_.push_back(static_cast<int>(nodes_.size()));
    stack_size_ = std::max(stack_size_, stacked_.back());
    nodes_.push_back({term, term + 1});
    for (int i = 0; i < additions_after(term); ++i) {
      nodes_.pop_back();
      nodes_.back().end = term + 1;
    }
  }
}

int TreeShare::additions_after(int64_t term) const {
  return additions_[static_cast<size_t>(term - share_.begin)];
}

int TreeShare::stacked_before(int64_t term) const {
  return stacked_[static_cast<size_t>(term - share_.begin)];
}

/// The sum of a node inside the share becomes complete with its last term.
void TreeShare::count(TreeNode node) {
  if (node.size() == 1 || node.end <= share_.begin || node.begin >= share_.end) return;
  const int64_t middle = middle_of(node);
  count({node.begin, middle});
  count({middle, node.end});
  if (share_.begin <= node.begin && node.end <= share_.end)
    ++additions_[static_cast<size_t>(node.end - 1 - share_.begin)];
}

std::vector<TreeAddition> tree_additions(int64_t terms, const std::vector<TreeNode>& nodes) {
  std::vector<TreeAddition> additions;
  add_up({0, terms}, nodes, additions);
  VENTRIS_CHECK(additions.size() + 1 == nodes.size(), "{} nodes are added in {} additions", nodes.size(),
                additions.size());
  return additions;
}

TreeNode share_of_rank(int64_t terms, int rank, int ranks) {
  return {rank * terms / ranks, (rank + 1) * terms / ranks};
}

}  // namespace ventris
