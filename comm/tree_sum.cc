#include "comm/tree_sum.h"

#include <algorithm>

#include "backend/error.h"

namespace ventris {
namespace {

/// The elements of the sum that `rank` owns.
TreeNode segment_of(const TreeSum& sum, int rank) {
  return owned_segment(sum.result.cols, rank, sum.layout->ranks, sum.unit, sum.turn);
}

Tensor part(const Tensor& tensor, TreeNode segment) {
  return tensor.col_range(segment.begin, segment.size());
}

void add_message(std::vector<TreeMessage>& messages, int peer, const Tensor& data) {
  if (data.cols > 0) messages.push_back({peer, data});
}

/// This rank's segment of the sums of all nodes. If there is only one, it is copied.
std::vector<Tensor> owned_segments(const TreeSum& sum) {
  const TreeLayout& layout = *sum.layout;
  const TreeNode mine = segment_of(sum, layout.rank);
  std::vector<Tensor> segments;
  size_t own = 0;
  int64_t received = 0;
  for (const int holder : layout.holders) {
    if (holder == layout.rank) {
      segments.push_back(part(sum.partials[own++], mine));
    } else if (layout.additions.empty()) {
      segments.push_back(part(sum.result, mine));
    } else {
      segments.push_back(sum.received.col_range(received, mine.size()));
      received += mine.size();
    }
  }
  VENTRIS_CHECK(own == sum.partials.size() && received <= sum.received.cols,
                "{} partial sums and room for {} elements, of which {} and {} are needed",
                sum.partials.size(), sum.received.cols, own, received);
  return segments;
}

}  // namespace

TreeLayout::TreeLayout(int64_t terms, int this_rank, int of_ranks) : rank(this_rank), ranks(of_ranks) {
  for (int holder = 0; holder < ranks; ++holder) {
    const TreeShare share(terms, share_of_rank(terms, holder, ranks));
    for (const TreeNode& node : share.nodes()) {
      nodes.push_back(node);
      holders.push_back(holder);
    }
  }
  additions = tree_additions(terms, nodes);
}

int TreeLayout::others() const {
  return static_cast<int>(std::count_if(holders.begin(), holders.end(), [this](int h) { return h != rank; }));
}

TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit, int64_t turn) {
  const int64_t units = (n + unit - 1) / unit;
  const int64_t left_over = units % ranks;
  const auto cut = [&](int before) {
    // Of the ranks before it those from `turn` on, and those that the end of the ranks cut off.
    const int64_t from_turn = std::clamp<int64_t>(before - turn, 0, left_over);
    const int64_t from_first = std::min<int64_t>(before, std::max<int64_t>(0, turn + left_over - ranks));
    return std::min(n, (units / ranks * before + from_turn + from_first) * unit);
  };
  return {cut(rank), cut(rank + 1)};
}

int64_t TreeSum::room_for(const TreeLayout& layout, int64_t n, int64_t unit, int64_t turn) {
  if (layout.additions.empty()) return 0;
  return layout.others() * owned_segment(n, layout.rank, layout.ranks, unit, turn).size();
}

TreeMessages partials_to_owners(const TreeSum& sum) {
  const TreeLayout& layout = *sum.layout;
  TreeMessages messages;
  for (int owner = 0; owner < layout.ranks; ++owner) {
    if (owner == layout.rank) continue;
    for (const Tensor& partial : sum.partials)
      add_message(messages.sends, owner, part(partial, segment_of(sum, owner)));
  }
  const std::vector<Tensor> segments = owned_segments(sum);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (layout.holders[i] != layout.rank) add_message(messages.receives, layout.holders[i], segments[i]);
  }
  return messages;
}

void for_each_addition(const TreeSum& sum, const std::function<void(const AddArgs&)>& add) {
  const TreeLayout& layout = *sum.layout;
  const std::vector<Tensor> segments = owned_segments(sum);
  const Tensor result = part(sum.result, segment_of(sum, layout.rank));
  if (result.cols == 0) return;
  for (const TreeAddition& addition : layout.additions) {
    const Tensor& into = segments[static_cast<size_t>(addition.into)];
    const bool last = &addition == &layout.additions.back();
    add({.a = into, .b = segments[static_cast<size_t>(addition.from)], .sum = last ? result : into});
  }
}

TreeMessages results_to_all(const TreeSum& sum) {
  const TreeLayout& layout = *sum.layout;
  TreeMessages messages;
  if (!sum.to_all) return messages;
  for (int other = 0; other < layout.ranks; ++other) {
    if (other == layout.rank) continue;
    add_message(messages.sends, other, part(sum.result, segment_of(sum, layout.rank)));
    add_message(messages.receives, other, part(sum.result, segment_of(sum, other)));
  }
  return messages;
}

}  // namespace ventris
