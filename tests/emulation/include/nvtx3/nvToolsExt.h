// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

/// Ranges of NVTX, for tests to look at: open ones, and all paths "outer/inner" that there were.
namespace ventris::emulation {
inline std::vector<std::string> open_ranges;
inline std::set<std::string> all_ranges;
}  // namespace ventris::emulation

inline int nvtxRangePushA(const char* name) {
  using namespace ventris::emulation;
  open_ranges.push_back(open_ranges.empty() ? name : open_ranges.back() + "/" + name);
  all_ranges.insert(open_ranges.back());
  return static_cast<int>(open_ranges.size()) - 1;
}

inline int nvtxRangePop() {
  using namespace ventris::emulation;
  if (open_ranges.empty()) return -1;
  open_ranges.pop_back();
  return static_cast<int>(open_ranges.size());
}
