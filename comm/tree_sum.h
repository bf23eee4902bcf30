// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "backend/add.h"
#include "backend/tensor.h"
#include "comm/tree_layout.h"

namespace ventris {

class Context;

/// The elements of n whose sums `rank` of `ranks` computes: it begins at a multiple of `unit`, and so does
/// the segment of the next rank. The units beyond a multiple of the ranks belong to the first ranks, one
/// each.
TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit);

/// Elements of whole vectors, for segments that nothing else divides.
inline constexpr int64_t kTreeUnit = 16;

/// A sum over the ranks in the order of the tree, in rounds of messages, each followed by additions:
///   0  inside hosts: each rank receives its slice of the partial sums of its host, and adds them;
///   1  between hosts: the owner of a segment receives what remains, and adds it;
///   2  between hosts: owners send the sums of their segments;
///   3  inside hosts: each rank sends the sums of its slice.
/// The last two are left out if each rank is to keep its own segment.
///
/// With n bytes, W ranks on m hosts of L, k partial sums of each rank and K of each host, a rank sends, and
/// receives, (k + 1) n (L - 1) / L bytes inside its host and (K + 1) n (m - 1) / W between hosts. Without
/// hosts (L = 1) these are (k + 1) n (W - 1) / W between all ranks: L times as much, or more, between hosts.
/// With k = K = 1 no schedule sends less: 2 n (m - 1) between all hosts.
struct TreeSum {
  Context* context = nullptr;
  const TreeLayout* layout = nullptr;
  std::vector<Tensor> partials = {};  // [1, n] each: of this rank's nodes, in order; overwritten
  Tensor result;                      // [1, n]: the place of the last partial sum, then the sum
  Tensor received;                    // [1, room_for(n, unit, to_all)]: overwritten
  int64_t unit = kTreeUnit;           // of the segments
  bool to_all = true;                 // otherwise only the owned_segment() of the result is the sum

  /// Elements that this rank receives for a sum of n.
  static int64_t room_for(const TreeLayout& layout, int64_t n, int64_t unit = kTreeUnit, bool to_all = true);
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

inline constexpr int kTreeRounds = 4;
TreeMessages messages_of_round(const TreeSum& sum, int round);
/// After these messages. One for each range of elements: one in all if all hosts have equally many ranks and
/// the result goes to all.
std::vector<AddArgs> additions_of_round(const TreeSum& sum, int round);

}  // namespace ventris
