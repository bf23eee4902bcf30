// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Private to data/.

namespace ventris::data {

/// Finds the keys that a text begins with. A double array (Aoe 1989) whose children lie at base XOR byte: a
/// step is one look at a byte. Two nodes never have the same base, so the byte alone tells whose child it is.
class PrefixTree {
 public:
  struct Key {
    std::string_view text;  // not empty, without zero bytes
    int32_t id;             // at least 0
  };
  PrefixTree() : PrefixTree(std::vector<Key>{}) {}
  /// Requires keys of different texts.
  explicit PrefixTree(std::vector<Key> keys);

  /// Calls each(id, bytes) for every key that the text begins with, the shortest first.
  template <typename Each>
  void for_each_prefix(std::string_view text, Each&& each) const {
    uint32_t base = root_;
    for (size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      const uint32_t place = base ^ byte;
      if (bytes_[place] != byte || byte == 0) return;  // 0: a free place
      const Node& node = nodes_[place];
      if (node.id >= 0) each(node.id, i + 1);
      base = node.base;
    }
  }
  /// The longest of them: its id, or -1, and its bytes.
  std::pair<int32_t, size_t> longest_prefix(std::string_view text) const {
    std::pair<int32_t, size_t> longest = {-1, 0};
    for_each_prefix(text, [&](int32_t id, size_t bytes) { longest = {id, bytes}; });
    return longest;
  }

 private:
  static constexpr uint32_t kBlock = 256;
  struct Node {
    uint32_t base = 0;  // of its children; 0, which no node has as base: none
    int32_t id = -1;    // of the key that ends here
  };
  struct OpenBlock {
    uint32_t begin;
    int failures;
  };
  uint32_t place_children(std::string_view bytes);
  uint32_t base_in(const OpenBlock& block, std::string_view bytes) const;

  std::vector<unsigned char> bytes_;  // that leads to a place, or 0 if the place is free
  std::vector<Node> nodes_;
  uint32_t root_ = 0;  // the base of the root
  // Only to build it.
  std::vector<bool> is_base_;
  std::vector<OpenBlock> open_;
};

}  // namespace ventris::data
