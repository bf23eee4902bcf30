#pragma once

#include <functional>
#include <vector>

#include "backend/add.h"
#include "backend/tensor.h"
#include "comm/tree_plan.h"

namespace ventris {

class Context;

/// The assignment of partial sums of the nodes of a tree to ranks, the same on every rank.
struct TreeLayout {
  /// Every rank has the sums of the nodes of its share_of_rank().
  TreeLayout(int64_t terms, int rank, int ranks);
  /// Partial sums that other ranks have.
  int others() const;

  int rank;
  int ranks;
  std::vector<TreeNode> nodes;          // of all ranks, in order
  std::vector<int> holders;             // the rank of each
  std::vector<TreeAddition> additions;  // of their sums
};

/// The elements of n whose sums `rank` of `ranks` computes: it begins at a multiple of `unit`, and so does
/// the segment of the next rank. The units beyond a multiple of the ranks belong to one rank each, from rank
/// `turn` on, after the last of which comes the first.
TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit, int64_t turn = 0);

/// Elements of whole vectors, for segments that nothing else divides.
inline constexpr int64_t kTreeUnit = 16;

/// A sum over the ranks in the order of the tree. Each rank owns one segment of the elements: it receives
/// that segment of every partial sum, adds them, and sends the result to all, unless each is to keep its own.
/// If every rank has one partial sum, the traffic is that of the best all-reduce.
struct TreeSum {
  Context* context = nullptr;
  const TreeLayout* layout = nullptr;
  std::vector<Tensor> partials = {};  // [1, n] each: of this rank's nodes, in order; overwritten
  Tensor result;                      // [1, n]: the place of the last partial sum, then the sum
  Tensor received;                    // [1, room_for(n, unit)]: overwritten
  int64_t unit = kTreeUnit;           // of the segments
  int64_t turn = 0;                   // of owned_segment()
  bool to_all = true;                 // otherwise only the owned segment of the result is the sum

  /// Elements that this rank receives for a sum of n.
  static int64_t room_for(const TreeLayout& layout, int64_t n, int64_t unit = kTreeUnit, int64_t turn = 0);
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

/// The segments of partial sums to their owners.
TreeMessages partials_to_owners(const TreeSum& sum);
/// After that: the additions for this rank's segment, in this order.
void for_each_addition(const TreeSum& sum, const std::function<void(const AddArgs&)>& add);
/// After that, if they go to all: the results from their owners.
TreeMessages results_to_all(const TreeSum& sum);

}  // namespace ventris
