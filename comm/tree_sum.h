// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "backend/device/tensor.h"
#include "backend/ops/add.h"
#include "comm/tree_plan.h"

namespace ventris {

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
