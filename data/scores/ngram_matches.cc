// SPDX-License-Identifier: Apache-2.0
#include "data/scores/ngram_matches.h"

#include <algorithm>
#include <bit>

namespace ventris::data {

void NgramMatches::set_hypothesis(std::span<const int32_t> symbols, int max_order) {
  max_order_ = max_order;
  references_ = 0;
  const size_t max_nodes = symbols.size() * static_cast<size_t>(max_order) + 1;
  const int bits = std::max(4, static_cast<int>(std::bit_width(max_nodes)) + 1);
  shift_ = 64 - bits;
  slots_.assign(size_t{1} << bits, Slot{});
  nodes_.resize(max_nodes);
  int32_t nodes = 1;
  nodes_[0] = {};
  const size_t mask = slots_.size() - 1;
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    const size_t end = std::min(symbols.size(), begin + static_cast<size_t>(max_order));
    int32_t node = 0;
    for (size_t at = begin; at < end; ++at) {
      const uint64_t key = key_of(node, symbols[at]);
      size_t i = first_slot(key);
      while (slots_[i].key != key && slots_[i].key != 0) i = (i + 1) & mask;
      if (slots_[i].key == 0) {
        slots_[i] = {key, nodes};
        nodes_[static_cast<size_t>(nodes++)] = {};
      }
      node = slots_[i].node;
      ++nodes_[static_cast<size_t>(node)].in_hypothesis;
    }
  }
}

void NgramMatches::add_reference(std::span<const int32_t> symbols, int64_t* matches) {
  ++references_;
  const size_t mask = slots_.size() - 1;
  for (size_t begin = 0; begin < symbols.size(); ++begin) {
    const size_t end = std::min(symbols.size(), begin + static_cast<size_t>(max_order_));
    int32_t number = 0;
    for (size_t at = begin; at < end; ++at) {
      const uint64_t key = key_of(number, symbols[at]);
      size_t i = first_slot(key);
      while (slots_[i].key != key && slots_[i].key != 0) i = (i + 1) & mask;
      if (slots_[i].key == 0) break;  // a longer n-gram cannot be in the hypothesis either
      number = slots_[i].node;
      Node& node = nodes_[static_cast<size_t>(number)];
      if (node.reference != references_) {
        node.reference = references_;
        node.in_reference = 0;
      }
      ++node.in_reference;
      if (node.in_reference > node.matched && node.in_reference <= node.in_hypothesis) {
        node.matched = node.in_reference;
        ++matches[at - begin];
      }
    }
  }
}

void NgramMatches::add_reference_alone(std::span<const int32_t> symbols, int64_t* matches) {
  if (references_ > 0) {
    for (Node& node : nodes_) node.matched = 0;
  }
  add_reference(symbols, matches);
}

}  // namespace ventris::data
