// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

/// The additions of the sums of some nodes of a tree, as far as these alone allow, in order and with a stack:
/// each sum is pushed, and then the two newest are replaced by older + newer, as often as `after` says.
struct TreeAdditions {
  /// `nodes`, in order, are disjoint nodes of the tree of `terms` terms.
  TreeAdditions(int64_t terms, const std::vector<TreeNode>& nodes);

  std::vector<int> after;       // additions after each of the nodes
  std::vector<TreeNode> nodes;  // that remain, in order: the fewest that cover the same terms
};

/// The additions of a rank with a share of consecutive terms, in order and without waiting for other ranks:
/// it keeps the sums of complete nodes on a stack.
class TreeShare {
 public:
  /// `share` is within [0, terms) and may be empty.
  TreeShare(int64_t terms, TreeNode share);

  /// The number of sums to pop from the stack for term `term` of the share, newest first: each is added to it
  /// in order.
  int additions_after(int64_t term) const { return additions_.after[position_of(term)]; }
  /// The size of the stack before the term.
  int stacked_before(int64_t term) const { return stacked_[position_of(term)]; }
  /// The maximum size of the stack.
  int stack_size() const { return stack_size_; }
  /// The remaining partial sums of the share, in order: the fewest nodes of the tree that cover it. The last
  /// one contains the last term.
  const std::vector<TreeNode>& nodes() const { return additions_.nodes; }

 private:
  size_t position_of(int64_t term) const { return static_cast<size_t>(term - share_.begin); }

  TreeNode share_;
  TreeAdditions additions_;
  std::vector<int> stacked_;  // by term of the share
  int stack_size_ = 0;
};

/// The terms of rank r of W: [r n / W, (r + 1) n / W).
TreeNode share_of_rank(int64_t terms, int rank, int ranks);

}  // namespace ventris
