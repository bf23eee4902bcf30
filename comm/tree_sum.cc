// SPDX-License-Identifier: Apache-2.0
#include "comm/tree_sum.h"

#include <algorithm>
#include <bit>

#include "backend/device/error.h"

namespace ventris {

namespace {

/// The first part of the sum of which `node` is the second part; empty if it is not a second part.
TreeNode part_before(int64_t terms, TreeNode node) {
  VENTRIS_CHECK(0 <= node.begin && node.begin < node.end && node.end <= terms,
                "{} to {} of {} terms are not a node", node.begin, node.end, terms);
  TreeNode within = {0, terms};
  TreeNode before;
  while (within != node) {
    VENTRIS_CHECK(within.size() > 1, "the terms from {} to {} are not a node", node.begin, node.end);
    const int64_t middle =
        within.begin + static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(within.size() - 1)));
    before = node.begin >= middle ? TreeNode{within.begin, middle} : TreeNode{};
    within = node.begin >= middle ? TreeNode{middle, within.end} : TreeNode{within.begin, middle};
  }
  return before;
}

std::vector<TreeNode> single_terms(TreeNode share) {
  std::vector<TreeNode> nodes;
  for (int64_t term = share.begin; term < share.end; ++term) nodes.push_back({term, term + 1});
  return nodes;
}

}  // namespace

TreeAdditions::TreeAdditions(int64_t terms, const std::vector<TreeNode>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    VENTRIS_CHECK(i == 0 || given[i - 1].end <= given[i].begin, "node {} to {} is not after that to {}",
                  given[i].begin, given[i].end, i == 0 ? 0 : given[i - 1].end);
    TreeNode node = given[i];
    after.push_back(0);
    for (TreeNode before = part_before(terms, node); !nodes.empty() && nodes.back() == before;
         before = part_before(terms, node)) {
      node.begin = before.begin;
      nodes.pop_back();
      ++after.back();
    }
    nodes.push_back(node);
  }
}

TreeShare::TreeShare(int64_t terms, TreeNode share) : share_(share), additions_(terms, single_terms(share)) {
  VENTRIS_CHECK(0 <= share.begin && share.begin <= share.end && share.end <= terms,
                "terms {} to {} of {} are not a share", share.begin, share.end, terms);
  int stacked = 0;
  for (const int additions : additions_.after) {
    stacked_.push_back(stacked);
    stack_size_ = std::max(stack_size_, stacked);
    stacked += 1 - additions;
  }
}

TreeNode share_of_rank(int64_t terms, int rank, int ranks) {
  return {rank * terms / ranks, (rank + 1) * terms / ranks};
}

namespace {

Tensor part(const Tensor& tensor, TreeNode elements) {
  return tensor.col_range(elements.begin, elements.size());
}

TreeNode segment_of(const TreeSum& sum, int rank) {
  return owned_segment(sum.result.cols, rank, sum.layout->ranks, sum.unit);
}

/// This rank's segment of each partial sum, in the order of terms: its own ones where they are, the others
/// one after the other where they are received.
std::vector<Tensor> terms_of_segment(const TreeSum& sum) {
  const TreeNode mine = segment_of(sum, sum.layout->rank);
  const auto others = static_cast<size_t>(sum.layout->others());
  VENTRIS_CHECK(sum.partials.size() + others == sum.layout->holders.size() &&
                    sum.received.cols >= static_cast<int64_t>(others) * mine.size(),
                "{} partial sums and room for {} elements of {} others", sum.partials.size(),
                sum.received.cols, others);
  std::vector<Tensor> terms;
  size_t own = 0;
  int64_t received = 0;
  for (const int holder : sum.layout->holders) {
    if (holder == sum.layout->rank) {
      terms.push_back(part(sum.partials[own++], mine));
    } else {
      terms.push_back(sum.received.col_range(received, mine.size()));
      received += mine.size();
    }
  }
  return terms;
}

void add_message(std::vector<TreeMessage>& messages, int peer, const Tensor& data) {
  if (data.cols > 0) messages.push_back({peer, data});
}

}  // namespace

TreeLayout::TreeLayout(int64_t terms, int rank, int ranks) : rank(rank), ranks(ranks) {
  std::vector<TreeNode> nodes;
  for (int holder = 0; holder < ranks; ++holder) {
    const TreeShare share(terms, share_of_rank(terms, holder, ranks));
    nodes.insert(nodes.end(), share.nodes().begin(), share.nodes().end());
    holders.resize(nodes.size(), holder);
  }
  after = TreeAdditions(terms, nodes).after;
}

int TreeLayout::others() const {
  return static_cast<int>(std::count_if(holders.begin(), holders.end(), [this](int h) { return h != rank; }));
}

TreeNode owned_segment(int64_t n, int rank, int ranks, int64_t unit) {
  const int64_t units = (n + unit - 1) / unit;
  const int64_t left_over = units % ranks;
  const auto cut = [&](int before) {
    return std::min(n, (units / ranks * before + std::min<int64_t>(before, left_over)) * unit);
  };
  return {cut(rank), cut(rank + 1)};
}

int64_t TreeSum::room_for(const TreeLayout& layout, int64_t n, int64_t unit) {
  return layout.others() * owned_segment(n, layout.rank, layout.ranks, unit).size();
}

TreeMessages messages_of_round(const TreeSum& sum, int round) {
  const TreeLayout& layout = *sum.layout;
  TreeMessages messages;
  if (round == 0) {
    const std::vector<Tensor> terms = terms_of_segment(sum);
    for (size_t i = 0; i < terms.size(); ++i) {
      if (layout.holders[i] != layout.rank) add_message(messages.receives, layout.holders[i], terms[i]);
    }
  }
  for (int peer = 0; peer < layout.ranks; ++peer) {
    if (peer == layout.rank) continue;
    if (round == 0) {
      for (const Tensor& partial : sum.partials)
        add_message(messages.sends, peer, part(partial, segment_of(sum, peer)));
    } else if (sum.to_all) {
      add_message(messages.sends, peer, part(sum.result, segment_of(sum, layout.rank)));
      add_message(messages.receives, peer, part(sum.result, segment_of(sum, peer)));
    }
  }
  return messages;
}

AddArgs additions_of_segment(const TreeSum& sum) {
  const TreeNode mine = segment_of(sum, sum.layout->rank);
  const std::vector<Tensor> terms = terms_of_segment(sum);
  AddArgs args;
  if (mine.size() == 0 || (terms.size() == 1 && sum.layout->holders[0] == sum.layout->rank)) return args;
  for (size_t i = 0; i < terms.size(); ++i)
    args.steps.push_back({.term = terms[i], .additions = sum.layout->after[i]});
  args.steps.back().sum = part(sum.result, mine);
  return args;
}

}  // namespace ventris
