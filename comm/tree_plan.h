#pragma once

#include <cstdint>
#include <vector>

namespace ventris {

/// The binary tree in which the terms 0 .. n - 1 of a sum are added, on any ranks: the sum of n > 1 terms is
/// that of the first m plus that of the others, m the largest power of two below n. A node of the tree is the
/// range of its terms.
struct TreeNode {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const TreeNode&) const = default;
};

/// The additions of a rank with a share of consecutive terms, in order and without waiting for other ranks:
/// it keeps the sums of complete nodes on a stack.
class TreeShare {
 public:
  /// `share` is within [0, terms) and may be empty.
  TreeShare(int64_t terms, TreeNode share);

  /// The number of sums to pop from the stack for term `term` of the share, newest first: each is added to it
  /// in order.
  int additions_after(int64_t term) const;
  /// The size of the stack before the term.
  int stacked_before(int64_t term) const;
  /// The maximum size of the stack.
  int stack_size() const { return stack_size_; }
  /// The remaining partial sums of the share, in order: the fewest nodes of the tree that cover it. The last
  /// one contains the last term.
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  void count(TreeNode node);

  TreeNode share_;
  std::vector<int> additions_;  // by term of the share
  std::vector<int> stacked_;    // by term of the share
  int stack_size_ = 0;
  std::vector<TreeNode> nodes_;
};

/// The additions of the remaining nodes of all shares: sum(into) = sum(into) + sum(from), in this order.
/// Numbers are positions in the list of nodes; the sum of all is then that of node 0.
struct TreeAddition {
  int into = 0;
  int from = 0;
  bool operator==(const TreeAddition&) const = default;
};

/// `nodes`, in order, are disjoint nodes of the tree that cover its `terms` terms, at least one.
std::vector<TreeAddition> tree_additions(int64_t terms, const std::vector<TreeNode>& nodes);

/// The terms of rank r of W: [r n / W, (r + 1) n / W).
TreeNode share_of_rank(int64_t terms, int rank, int ranks);

}  // namespace ventris
