// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/device/tensor.h"
#include "backend/ops/add.h"

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

class Context;

/// The partial sums from which a sum over the ranks is made in the order of a tree: those of every rank, in
/// the order of their terms.
struct TreeLayout {
  /// Rank r has the sums of the nodes of its share_of_rank().
  TreeLayout(int64_t terms, int rank, int ranks);
  /// Partial sums of other ranks.
  int others() const;

  int rank;
  int ranks;
  std::vector<int> holders;  // the rank that has each partial sum
  std::vector<int> after;    // TreeAdditions::after of each
};

/// The elements of n whose sums `rank` of `ranks` computes: it begins at a multiple of `unit`, and so does
/// the segment of the next rank. The units beyond a multiple of the ranks belong to the first ranks, one
/// each.
TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit);

/// Elements of whole vectors, for segments that nothing else divides.
inline constexpr int64_t kTreeUnit = 16;

/// A sum over the ranks in the order of the tree, in two rounds of messages:
///   0  the owner of a segment receives it of all partial sums, and adds them;
///   1  owners send the sums of their segments to all ranks, unless each rank is to keep its own.
/// With n bytes, W ranks and k partial sums of each rank, a rank sends, and receives, (k + 1) n (W - 1) / W
/// bytes; with k = 1 no schedule sends less.
struct TreeSum {
  Context* context = nullptr;
  const TreeLayout* layout = nullptr;
  std::vector<Tensor> partials = {};  // [1, n] each: of this rank's nodes, in order
  Tensor result;                      // [1, n]: the place of the last partial sum, then the sum
  Tensor received;                    // [1, room_for(n, unit)]: overwritten
  int64_t unit = kTreeUnit;           // of the segments
  bool to_all = true;                 // otherwise only the owned_segment() of the result is the sum

  /// Elements that this rank receives in the first round of a sum of n.
  static int64_t room_for(const TreeLayout& layout, int64_t n, int64_t unit = kTreeUnit);
};

/// Elements that are sent to a rank, or received from it. Those between two ranks are in the same order on
/// both.
struct TreeMessage {
  int peer;
  Tensor data;  // [1, count], not empty
};
struct TreeMessages {
  std::vector<TreeMessage> sends;
  std::vector<TreeMessage> receives;
};

inline constexpr int kTreeRounds = 2;
TreeMessages messages_of_round(const TreeSum& sum, int round);
/// After the messages of the first round; no steps if there is nothing to add.
AddArgs additions_of_segment(const TreeSum& sum);

}  // namespace ventris
