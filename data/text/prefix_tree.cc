// SPDX-License-Identifier: Apache-2.0
#include "data/text/prefix_tree.h"

#include <algorithm>

namespace ventris::data {

// Breadth first, so that the nodes with the most children come first.
PrefixTree::PrefixTree(std::vector<Key> keys) {
  std::sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.text < b.text; });
  bytes_.resize(kBlock);
  nodes_.resize(kBlock);
  is_base_.resize(kBlock);
  is_base_[0] = true;
  open_.push_back({.begin = 0, .failures = 0});
  struct Range {  // of the keys below a node; their first bytes that led to it, and its place
    size_t begin, end, bytes;
    uint32_t place;
  };
  constexpr uint32_t kRoot = 0;  // a place without a child, as no byte is 0 and no base
  std::vector<Range> ranges = {{0, keys.size(), 0, kRoot}};
  std::vector<Range> below;
  std::string bytes;
  while (!ranges.empty()) {
    for (auto [begin, end, size, place] : ranges) {
      if (begin < end && keys[begin].text.size() == size) nodes_[place].id = keys[begin++].id;
      if (begin == end) continue;
      bytes.clear();
      for (size_t i = begin; i < end; ++i) {
        const char byte = keys[i].text[size];
        if (bytes.empty() || bytes.back() != byte) bytes.push_back(byte);
      }
      const uint32_t base = place_children(bytes);
      (place == kRoot ? root_ : nodes_[place].base) = base;
      for (const char byte : bytes) {
        size_t next = begin;
        while (next < end && keys[next].text[size] == byte) ++next;
        below.push_back({begin, next, size + 1, base ^ static_cast<unsigned char>(byte)});
        begin = next;
      }
    }
    ranges.swap(below);
    below.clear();
  }
  is_base_ = {};
  open_ = {};
}

/// Takes places for children with these bytes; returns their base. Only a few blocks are open at a time, and
/// each only until it had no room a few times, which bounds the time to build.
uint32_t PrefixTree::place_children(std::string_view bytes) {
  constexpr size_t kMostOpen = 16;
  constexpr int kMostFailures = 8;
  uint32_t base = 0;
  for (size_t i = 0; i < open_.size() && base == 0;) {
    base = base_in(open_[i], bytes);
    if (base == 0 && ++open_[i].failures == kMostFailures) {
      open_.erase(open_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (base == 0) {
    if (open_.size() == kMostOpen) open_.erase(open_.begin());
    open_.push_back({.begin = static_cast<uint32_t>(bytes_.size()), .failures = 0});
    bytes_.resize(bytes_.size() + kBlock);
    nodes_.resize(bytes_.size());
    is_base_.resize(bytes_.size());
    base = base_in(open_.back(), bytes);
  }
  is_base_[base] = true;
  for (const char byte : bytes) {
    bytes_[base ^ static_cast<unsigned char>(byte)] = static_cast<unsigned char>(byte);
  }
  return base;
}

/// A base in the block whose places for all these bytes are free, or 0.
uint32_t PrefixTree::base_in(const OpenBlock& block, std::string_view bytes) const {
  for (uint32_t base = block.begin; base < block.begin + kBlock; ++base) {
    if (is_base_[base]) continue;
    const auto is_free = [&](char byte) {
      const uint32_t place = base ^ static_cast<unsigned char>(byte);
      return bytes_[place] == 0 && place != 0;
    };
    if (std::all_of(bytes.begin(), bytes.end(), is_free)) return base;
  }
  return 0;
}

}  // namespace ventris::data
