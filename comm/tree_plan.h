#pragma once

#include <cstdint>
#include <vector>

namespace ventris {

/// The binary tree in which the terms 0 .. n - 1 of a sum are added, whoever has them: the sum of n > 1 terms
/// is that of the first m plus that of the others, m the largest power of two below n. A node of the tree is
/// the range of its terms.
struct TreeNode {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool operator==(const TreeNode&) const = default;
};

/// How the holder of a share, some terms in a row, adds them one after another without waiting for others: it
/// keeps the sums of the nodes that are complete on a stack.
class TreeShare {
 public:
  /// `share` lies in [0, terms) and may be empty.
  TreeShare(int64_t terms, TreeNode share);

  /// With term `term` of the share, so many sums of the stack, the newest first, become complete: each is
  /// added to it in turn.
  int additions_after(int64_t term) const;
  /// The sums that lie on the stack when the term comes.
  int stacked_before(int64_t term) const;
  /// The most sums that ever lie on the stack.
  int stack_size() const { return stack_size_; }
  /// What is left of the share at the end, in order: the fewest nodes of the tree that make it up. The last
  /// is the one that the last term went into.
  const std::vector<TreeNode>& nodes() const { return nodes_; }

 private:
  void count(TreeNode node);

  TreeNode share_;
  std::vector<int> additions_;  // by term of the share
  std::vector<int> stacked_;    // likewise
  int stack_size_ = 0;
  std::vector<TreeNode> nodes_;
};

/// How the nodes that are left of all shares are added: sum(into) = sum(into) + sum(from), in this order.
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
