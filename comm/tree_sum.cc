// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.h"

#include <algorithm>

#include "backend/error.h"

namespace ventris {
namespace {

/// The elements of a sum that ranks own and gather.
class Division {
 public:
  Division(const TreeLayout& layout, int64_t n, int64_t unit, bool to_all)
      : layout_(layout), n_(n), unit_(unit), to_all_(to_all) {}

  TreeNode segment(int owner) const {
    return owned_segment(n_, to_all_ ? layout_.place_of(owner) : owner, layout_.ranks(), unit_);
  }
  TreeNode gathered(int owner, int gatherer) const {
    return layout_.gathered(segment(owner), owner, gatherer);
  }
  /// All that a rank gathers: as few ranges as that takes, in order.
  std::vector<TreeNode> slice(int gatherer) const {
    std::vector<TreeNode> pieces;
    for (int owner = 0; owner < layout_.ranks(); ++owner) {
      if (layout_.host_of(owner) == layout_.host_of(gatherer) && owner != gatherer) continue;
      const TreeNode piece = gathered(owner, gatherer);
      if (piece.size() > 0) pieces.push_back(piece);
    }
    std::sort(pieces.begin(), pieces.end(), [](TreeNode a, TreeNode b) { return a.begin < b.begin; });
    std::vector<TreeNode> ranges;
    for (const TreeNode& piece : pieces) {
      if (!ranges.empty() && ranges.back().end == piece.begin) {
        ranges.back().end = piece.end;
      } else {
        ranges.push_back(piece);
      }
    }
    return ranges;
  }

 private:
  const TreeLayout& layout_;
  int64_t n_;
  int64_t unit_;
  bool to_all_;
};

int64_t elements_of(const std::vector<TreeNode>& ranges) {
  int64_t elements = 0;
  for (const TreeNode& range : ranges) elements += range.size();
  return elements;
}

Tensor part(const Tensor& tensor, TreeNode elements) {
  return tensor.col_range(elements.begin, elements.size());
}

void add_message(std::vector<TreeMessage>& messages, int peer, const Tensor& data) {
  if (data.cols > 0) messages.push_back({peer, data});
}

/// A sum as this rank sees it: where the partial sums are, and what to do in a round.
class Schedule {
 public:
  explicit Schedule(const TreeSum& sum)
      : sum_(sum),
        layout_(*sum.layout),
        rank_(layout_.rank()),
        host_(layout_.host_of(rank_)),
        division_(layout_, sum.result.cols, sum.unit, sum.to_all),
        slice_(division_.slice(rank_)),
        mine_(division_.segment(rank_)) {
    const auto& holders = layout_.in_host().holders;
    const auto own = static_cast<size_t>(std::count(holders.begin(), holders.end(), rank_));
    const int64_t room = TreeSum::room_for(layout_, sum.result.cols, sum.unit, sum.to_all);
    VENTRIS_CHECK(sum.partials.size() == own && sum.received.cols >= room,
                  "{} partial sums and room for {} elements, of which {} and {} are needed",
                  sum.partials.size(), sum.received.cols, own, room);
  }

  TreeMessages partials_inside_hosts() const {
    TreeMessages messages;
    for (const int peer : peers_in_host()) {
      const std::vector<TreeNode> slice = division_.slice(peer);
      for (const Tensor& partial : sum_.partials) {
        for (const TreeNode& range : slice) add_message(messages.sends, peer, part(partial, range));
      }
    }
    const std::vector<int>& holders = layout_.in_host().holders;
    for (size_t i = 0; i < holders.size(); ++i) {
      if (holders[i] == rank_) continue;
      for (const TreeNode& range : slice_) add_message(messages.receives, holders[i], of_rank(i, range));
    }
    return messages;
  }

  std::vector<AddArgs> additions_inside_hosts() const {
    std::vector<AddArgs> all;
    for (const TreeNode& range : slice_) {
      AddArgs args;
      for_each_sum(layout_.in_host().additions, [&](size_t first, size_t last, size_t sum) {
        for (size_t i = first; i <= last && first < last; ++i)
          args.steps.push_back(step(layout_.in_host(), i, of_rank(i, range)));
        if (first < last) args.steps.back().sum = of_this_host(sum, range);
      });
      if (!args.steps.empty()) all.push_back(args);
    }
    return all;
  }

  TreeMessages partials_between_hosts() const {
    TreeMessages messages;
    for (const int peer : peers_on_other_hosts()) {
      const TreeNode sent = division_.gathered(peer, rank_);
      const size_t sums = layout_.in_host().additions.nodes.size();
      for (size_t i = 0; i < sums; ++i) add_message(messages.sends, peer, of_this_host(i, sent));
      const TreeNode received = division_.gathered(rank_, peer);
      const std::vector<int>& holders = layout_.between_hosts().holders;
      for (size_t i = 0; i < holders.size(); ++i) {
        if (holders[i] == layout_.host_of(peer)) add_message(messages.receives, peer, of_host(i, received));
      }
    }
    return messages;
  }

  std::vector<AddArgs> additions_between_hosts() const {
    if (mine_.size() == 0) return {};
    const TreeLayout::Level& level = layout_.between_hosts();
    AddArgs args;
    for (size_t i = 0; i < level.holders.size(); ++i) args.steps.push_back(step(level, i, of_host(i, mine_)));
    args.steps.back().sum = part(sum_.result, mine_);
    const bool is_there = args.steps.size() == 1 && args.steps[0].term.data == args.steps[0].sum.data;
    return is_there ? std::vector<AddArgs>{} : std::vector<AddArgs>{args};
  }

  TreeMessages results_between_hosts() const {
    TreeMessages messages;
    for (const int peer : peers_on_other_hosts()) {
      add_message(messages.sends, peer, part(sum_.result, division_.gathered(rank_, peer)));
      add_message(messages.receives, peer, part(sum_.result, division_.gathered(peer, rank_)));
    }
    return messages;
  }

  TreeMessages results_inside_hosts() const {
    TreeMessages messages;
    for (const int peer : peers_in_host()) {
      for (const TreeNode& range : slice_) add_message(messages.sends, peer, part(sum_.result, range));
      for (const TreeNode& range : division_.slice(peer))
        add_message(messages.receives, peer, part(sum_.result, range));
    }
    return messages;
  }

 private:
  std::vector<int> peers_in_host() const {
    std::vector<int> peers = layout_.members()[static_cast<size_t>(host_)];
    peers.erase(std::find(peers.begin(), peers.end(), rank_));
    return peers;
  }
  std::vector<int> peers_on_other_hosts() const {
    std::vector<int> peers;
    for (int rank = 0; rank < layout_.ranks(); ++rank) {
      if (layout_.host_of(rank) != host_) peers.push_back(rank);
    }
    return peers;
  }

  static AddStep step(const TreeLayout::Level& level, size_t i, const Tensor& term) {
    return {.term = term, .additions = level.additions.after[i]};
  }

  /// Calls body(first, last, i) with the positions of the parts of each sum i that remains.
  template <typename Body>
  static void for_each_sum(const TreeAdditions& additions, const Body& body) {
    size_t first = 0;
    for (size_t i = 0; i < additions.last.size(); ++i) {
      const auto last = static_cast<size_t>(additions.last[i]);
      body(first, last, i);
      first = last + 1;
    }
  }

  /// Of partial sum i, those of `holders` other than `own` that are before it.
  static int64_t others_before(const std::vector<int>& holders, size_t i, int own) {
    return std::count_if(holders.begin(), holders.begin() + static_cast<std::ptrdiff_t>(i),
                         [=](int holder) { return holder != own; });
  }

  /// Partial sum i of the ranks of this host, on a range in this rank's slice.
  Tensor of_rank(size_t i, TreeNode range) const {
    const std::vector<int>& holders = layout_.in_host().holders;
    const int64_t others = others_before(holders, i, rank_);
    if (holders[i] == rank_) return part(sum_.partials[i - static_cast<size_t>(others)], range);
    int64_t before = others * elements_of(slice_);
    for (const TreeNode& earlier : slice_) {
      if (earlier.begin <= range.begin && range.begin < earlier.end)
        return sum_.received.col_range(before + range.begin - earlier.begin, range.size());
      before += earlier.size();
    }
    return sum_.received.col_range(before, 0);
  }

  /// Sum i of those that remain of this host, likewise. If there is no other, it needs no more additions.
  Tensor of_this_host(size_t i, TreeNode range) const {
    const TreeAdditions& additions = layout_.in_host().additions;
    const bool was_added = additions.after.size() > 1;
    if (layout_.between_hosts().holders.size() == 1 && was_added) return part(sum_.result, range);
    return of_rank(static_cast<size_t>(additions.last[i]), range);
  }

  /// Partial sum i of the hosts, on elements of this rank's segment.
  Tensor of_host(size_t i, TreeNode elements) const {
    const std::vector<int>& holders = layout_.between_hosts().holders;
    const int64_t others = others_before(holders, i, host_);
    if (holders[i] == host_) return of_this_host(i - static_cast<size_t>(others), elements);
    const int64_t begin = layout_.in_host().others(rank_) * elements_of(slice_) + others * mine_.size();
    return sum_.received.col_range(begin + elements.begin - mine_.begin, elements.size());
  }

  const TreeSum& sum_;
  const TreeLayout& layout_;
  const int rank_;
  const int host_;
  const Division division_;
  const std::vector<TreeNode> slice_;
  const TreeNode mine_;
};

}  // namespace

TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit) {
  const int64_t units = (n + unit - 1) / unit;
  const int64_t left_over = units % ranks;
  const auto cut = [&](int before) {
    return std::min(n, (units / ranks * before + std::min<int64_t>(before, left_over)) * unit);
  };
  return {cut(rank), cut(rank + 1)};
}

int64_t TreeSum::room_for(const TreeLayout& layout, int64_t n, int64_t unit, bool to_all) {
  const Division division(layout, n, unit, to_all);
  const int rank = layout.rank();
  return layout.in_host().others(rank) * elements_of(division.slice(rank)) +
         layout.between_hosts().others(layout.host_of(rank)) * division.segment(rank).size();
}

TreeMessages messages_of_round(const TreeSum& sum, int round) {
  const Schedule schedule(sum);
  if (round == 0) return schedule.partials_inside_hosts();
  if (round == 1) return schedule.partials_between_hosts();
  if (!sum.to_all) return {};
  return round == 2 ? schedule.results_between_hosts() : schedule.results_inside_hosts();
}

std::vector<AddArgs> additions_of_round(const TreeSum& sum, int round) {
  const Schedule schedule(sum);
  if (round == 0) return schedule.additions_inside_hosts();
  if (round == 1) return schedule.additions_between_hosts();
  return {};
}

}  // namespace ventris
